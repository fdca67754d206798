// `make demo`: starts the daemon and runs the first steps of a new user with `sandbox`: a sandbox, commands, files,
// forks.
import { type ChildProcess, spawn } from 'node:child_process';
import {
  copyFileSync,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const SHARED = ['profiles', 'kernels', 'layers', 'agents', 'engines'];
const FORKS = 3;
const START_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 20_000;

const SCRIPTS = [
  {
    title: 'who and where am I',
    script: 'id -un; hostname; uname -sr; head -1 /etc/os-release',
    exitCode: 0,
  },
  {
    title: 'output is streamed',
    script: 'for i in 1 2 3; do echo tick $i; sleep 0.4; done',
    exitCode: 0,
  },
  { title: 'errors and exit codes come through', script: 'echo fine; echo trouble >&2; exit 3', exitCode: 3 },
  { title: 'some work', script: 'seq 1 20000 | sort -rn | head -1; df -h / | tail -1', exitCode: 0 },
];

const checkout = resolve(import.meta.dirname, '..');
const { values } = parseArgs({
  options: { 'data-dir': { type: 'string', default: join(checkout, '.data') } },
});
const sharedDir = resolve(values['data-dir']);
const steps: { readonly step: string; readonly ms: number }[] = [];

// Uses its own data directory with shared baked images, so it does not interfere with a running daemon.
mkdirSync(sharedDir, { recursive: true });
const dataDir = mkdtempSync(join(sharedDir, 'demo-'));
const runDir = mkdtempSync(join(tmpdir(), 'sandboxd-demo-'));
for (const name of SHARED) {
  mkdirSync(join(sharedDir, name), { recursive: true });
  symlinkSync(join(sharedDir, name), join(dataDir, name));
}
const logPath = join(runDir, 'daemon.log');
writeFileSync(logPath, '');
let daemon: ChildProcess | undefined;
let ending: Promise<never> | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void finish(130));
// The reader is gone (`make demo | head`, a closed terminal): stop the daemon too.
process.stdout.on('error', () => void finish(1));

try {
  const url = await timed('daemon start, engine probe included', startDaemon);
  say(`\n$ export SANDBOXD_HOST=${url}`);
  const sandbox = (...args: readonly string[]) => runCommand(url, args, 0);
  say('\n# a virtual machine of its own');
  const id = await timed('first create: boots a guest and answers with it', () => sandbox('run', 'base'));
  for (const { title, script, exitCode } of SCRIPTS) {
    say(`\n# ${title}`);
    await timed(`exec: ${title}`, () => runCommand(url, ['exec', id, 'sh', '-c', script], exitCode));
  }
  say('\n# files go in and out');
  await timed('copy a directory in', () => sandbox('cp', 'docs', `${id}:/srv/docs`));
  await sandbox('exec', id, 'sh', '-c', 'ls /srv/docs | head -3');
  say('\n# pay once, then have copies: the guest’s memory, processes and files go on in each');
  await sandbox('exec', id, 'sh', '-c', 'echo prepared once > /root/state');
  const forks = await timed(`snapshot and fork × ${FORKS}`, () => sandbox('fork', '-n', String(FORKS), id));
  for (const fork of forks.split('\n'))
    await sandbox('exec', fork, 'sh', '-c', 'echo "$(hostname): $(cat /root/state)"');
  say('\n# for one command');
  await timed('create, run, remove: a copy of the template', () => sandbox('run', '--rm', 'base', 'nproc'));
  say('\n# and away');
  await sandbox('ps');
  await timed(`remove ${FORKS + 1} sandboxes`, () => sandbox('rm', '-a'));
  await timed('daemon stop', stopDaemon);
  say('\nhow long each step took');
  for (const { step, ms } of steps) say(`  ${`${ms.toFixed(0)} ms`.padStart(9)}  ${step}`);
  await finish(0);
} catch (error) {
  await fail(error);
}

function startDaemon(): Promise<string> {
  const args = [
    '--listen',
    '127.0.0.1:0',
    '--data-dir',
    dataDir,
    '--run-dir',
    runDir,
    '--log-format',
    'json',
    '--on-exit',
    'destroy',
  ];
  // A session of its own: the terminal's signals reach only this program, which stops the daemon gracefully.
  const child = spawn(join(checkout, 'dist/sandboxd'), args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
  daemon = child;
  child.stderr.pipe(createWriteStream(logPath));
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`the daemon did not start within ${START_TIMEOUT_MS / 1000} s`)),
      START_TIMEOUT_MS,
    );
    let seen = '';
    child.on('error', reject);
    child.on('exit', (code) => {
      // The daemon prints the reason as one line after its log.
      const reason = /^sandboxd: (.+)$/m.exec(seen)?.[1] ?? `it ended with exit code ${code}`;
      reject(new Error(`the daemon did not start: ${reason}`));
    });
    child.stderr.on('data', (chunk: Buffer) => {
      seen += chunk.toString();
      const url = /listening on (http:[^"]+)"/.exec(seen)?.[1];
      if (url === undefined) return;
      clearTimeout(timer);
      resolve(url);
    });
  });
}

async function stopDaemon(): Promise<void> {
  const child = daemon;
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  child.kill('SIGTERM');
  await ended;
  clearTimeout(timer);
}

/** Reports the error, unless the demo was interrupted. */
async function fail(error: unknown): Promise<never> {
  if (ending !== undefined) return ending;
  const savedLog = join(sharedDir, 'demo-failed.log');
  copyFileSync(logPath, savedLog);
  process.stderr.write(`\ndemo failed: ${error instanceof Error ? error.message : error}.\n`);
  process.stderr.write(
    `The daemon's log is in ${savedLog}; run \`make demo\` again when the cause is fixed.\n`,
  );
  return finish(1);
}

function finish(code: number): Promise<never> {
  ending ??= cleanUp(code);
  return ending;
}

async function cleanUp(code: number): Promise<never> {
  await stopDaemon();
  for (const dir of [dataDir, runDir]) rmSync(dir, { recursive: true, force: true });
  process.exit(code);
}

/** Prints the command and its output. Resolves with its stdout; rejects for another exit code. */
function runCommand(url: string, args: readonly string[], exitCode: number): Promise<string> {
  say(`$ sandbox ${args.map((arg) => (/^[\w/.:-]+$/.test(arg) ? arg : `'${arg}'`)).join(' ')}`);
  const child = spawn(join(checkout, 'dist/sandbox'), args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: checkout,
    env: { ...process.env, SANDBOXD_HOST: url },
  });
  let output = '';
  child.stdout.on('data', (bytes: Buffer) => {
    output += bytes.toString();
    process.stdout.write(bytes);
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      if (code !== exitCode) return reject(new Error(`sandbox ${args[0]} ended with ${code}`));
      if (code !== 0) say(`→ exit code ${code}`);
      resolve(output.trim());
    });
  });
}

async function timed<T>(step: string, work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const value = await work();
  steps.push({ step, ms: performance.now() - startedAt });
  return value;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
