// `make demo`: starts the daemon, makes a sandbox over REST, runs commands in it with streamed output, and cleans up.
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
import { EXEC_FRAME, ExecFrameDecoder } from '@sandboxd/api';

const SHARED = ['profiles', 'kernels', 'layers', 'engines'];
const FORKS = 3;
const START_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 20_000;

const COMMANDS = [
  { title: 'who and where am I', cmd: ['sh', '-c', 'id -un; hostname; uname -sr; head -1 /etc/os-release'] },
  {
    title: 'output comes as it is made',
    cmd: ['sh', '-c', 'for i in 1 2 3; do echo tick $i; sleep 0.4; done'],
  },
  { title: 'errors are a stream of their own', cmd: ['sh', '-c', 'echo fine; echo trouble >&2; exit 3'] },
  { title: 'some work', cmd: ['sh', '-c', 'seq 1 20000 | sort -rn | head -1; df -h / | tail -1'] },
];

type ExecResult = { readonly exit_code: number; readonly duration_ms: number; readonly usage?: object };

const checkout = resolve(import.meta.dirname, '..');
const { values } = parseArgs({
  options: { 'data-dir': { type: 'string', default: join(checkout, '.data') } },
});
const sharedDir = resolve(values['data-dir']);
const steps: { readonly step: string; readonly ms: number }[] = [];

// A data directory of its own, with what is baked shared: a daemon that runs already is left alone.
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
// Nobody reads any longer (`make demo | head`, a closed terminal): the daemon must not be left behind.
process.stdout.on('error', () => void finish(1));

try {
  const baseUrl = await timed('daemon start, engine probe included', startDaemon);
  say(`\nsandboxd serves ${baseUrl}`);
  const created = await timed('first create: boots a guest, saves it as a template, copies it', () =>
    call(baseUrl, 'POST', '/sandboxes', {}),
  );
  say(`\nPOST /sandboxes → 201\n${indent(JSON.stringify(created, null, 2))}`);
  const id = String(created.id);
  let last: ExecResult | undefined;
  for (const { title, cmd } of COMMANDS) {
    say(`\n# ${title}\n$ ${cmd.map((word) => (/^[\w/.-]+$/.test(word) ? word : `'${word}'`)).join(' ')}`);
    last = await timed(`exec: ${title}`, () => exec(baseUrl, id, cmd));
    say(`→ exit code ${last.exit_code} after ${last.duration_ms} ms`);
  }
  say(`\nusage of the last command\n${indent(JSON.stringify(last?.usage, null, 2))}`);
  say('\n# pay once, then have copies: the guest’s memory, processes and files go on in each');
  await exec(baseUrl, id, ['sh', '-c', 'echo prepared once > /root/state']);
  const snapshot = await timed('snapshot', () => call(baseUrl, 'POST', `/sandboxes/${id}/snapshot`));
  const { sandboxes } = await timed(`fork × ${FORKS}`, () =>
    call(baseUrl, 'POST', `/snapshots/${snapshot.id}/fork?count=${FORKS}`),
  );
  const forks = (sandboxes as { id: string }[]).map((sandbox) => sandbox.id);
  for (const fork of forks) await exec(baseUrl, fork, ['sh', '-c', 'echo "$(hostname): $(cat /root/state)"']);
  const second = await timed('another create: a copy of the template', () =>
    call(baseUrl, 'POST', '/sandboxes', {}),
  );
  await timed(`delete ${forks.length + 2} sandboxes and the snapshot`, async () => {
    for (const each of [id, String(second.id), ...forks]) await call(baseUrl, 'DELETE', `/sandboxes/${each}`);
    await call(baseUrl, 'DELETE', `/snapshots/${snapshot.id}`);
  });
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
  // A session of its own: signals of the terminal reach this program alone, which ends the daemon in order.
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
      // The daemon says in one line why it does not start, behind what it logged.
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

/** Says what went wrong, unless it is that the demo was ended. */
async function fail(error: unknown): Promise<never> {
  if (ending !== undefined) return ending;
  const kept = join(sharedDir, 'demo-failed.log');
  copyFileSync(logPath, kept);
  process.stderr.write(`\ndemo failed: ${error instanceof Error ? error.message : error}.\n`);
  process.stderr.write(`The daemon's log is in ${kept}; run \`make demo\` again when that is put right.\n`);
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

/** One JSON request; throws with the daemon's own words when it is refused. */
async function call(
  baseUrl: string,
  method: string,
  path: string,
  body?: object,
): Promise<{ readonly [field: string]: unknown }> {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) };
  const response = await fetch(baseUrl + path, init);
  const text = await response.text();
  const answer = text === '' ? {} : JSON.parse(text);
  if (!response.ok) throw new Error(`${method} ${path} → ${response.status}: ${answer.error}`);
  return answer;
}

/** Prints output as it arrives; the last frame is the result. */
async function exec(baseUrl: string, id: string, cmd: readonly string[]): Promise<ExecResult> {
  const response = await fetch(`${baseUrl}/sandboxes/${id}/exec`, {
    method: 'POST',
    body: JSON.stringify({ cmd }),
  });
  if (!response.ok || response.body === null)
    throw new Error(`exec → ${response.status}: ${await response.text()}`);
  const startedAt = performance.now();
  const decoder = new ExecFrameDecoder();
  let result: ExecResult | undefined;
  for await (const chunk of response.body) {
    for (const { type, payload } of decoder.push(chunk)) {
      if (type === EXEC_FRAME.exit) result = JSON.parse(payload.toString());
      else {
        const name = type === EXEC_FRAME.stdout ? 'stdout' : 'stderr';
        const at = `${((performance.now() - startedAt) / 1000).toFixed(2)} s`;
        for (const line of payload.toString().trimEnd().split('\n')) say(`  ${at} ${name} │ ${line}`);
      }
    }
  }
  if (result === undefined) throw new Error('the stream ended without a result');
  return result;
}

async function timed<T>(step: string, work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const value = await work();
  steps.push({ step, ms: performance.now() - startedAt });
  return value;
}

function indent(text: string): string {
  return text.replace(/^/gm, '  ');
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
