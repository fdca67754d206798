// `make soak`: thousands of execs of every kind; descriptors, memory, cgroups and processes of host and guest must then
// be as they were after the warm-up. Then detached commands, whose daemon and clients are killed.
import { readdir, readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { Running } from '../support/command.ts';
import { eachExactlyOnce } from '../support/commands.ts';
import type { Daemon } from '../support/daemon.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';

const { values } = parseArgs({
  options: { execs: { type: 'string', default: '2000' }, commands: { type: 'string', default: '1000' } },
});
const EXECS = Number(values.execs);
const COMMANDS = Number(values.commands);
const WARM_UP = Math.min(200, EXECS);
const CONCURRENT = 8;
/** Growth above these limits is a leak and not garbage-collector noise. */
const MAX_GROWTH = { hostFds: 4, hostMib: 48, guestFds: 4, guestMib: 8, guestCgroups: 1, guestProcesses: 1 };
/** Time for descriptors and cgroups of the last commands to disappear. */
const SETTLE_MS = 5000;

type Levels = { readonly [K in keyof typeof MAX_GROWTH]: number };

const directories = await makeDirectories();
const daemon = await spawnDaemon(directories);
let last = daemon;
let isSound = false;
try {
  const { id } = await daemon.api.create();
  await runMany(daemon, id, WARM_UP);
  const before = await readLevels(daemon, id);
  const startedAt = performance.now();
  await runMany(daemon, id, EXECS);
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await readLevels(daemon, id);
  console.log(`\n${EXECS} execs in ${seconds.toFixed(0)} s, ${(EXECS / seconds).toFixed(1)} a second`);
  isSound = compare(before, after);
  isSound = (await runDetached(id)) && isSound;
  await last.api.delete(id);
} finally {
  await last.end();
  await removeDirectories(directories);
}
process.exit(isSound ? 0 : 1);

/** Every tenth of the detached commands, the daemon is killed while they run. */
async function runDetached(id: string): Promise<boolean> {
  let failures = 0;
  const check = (isTrue: boolean, what: string): boolean => {
    if (!isTrue) console.log(`FAILED ${what}`);
    failures += isTrue ? 0 : 1;
    return isTrue;
  };
  const t = {
    equal: (a: unknown, b: unknown, what?: unknown) => check(a === b, `${what}: ${a} is not ${b}`),
  } as unknown as Parameters<typeof eachExactlyOnce>[0];
  let started = 0;
  await eachExactlyOnce(t, last.api, id, COMMANDS, async ([command]) => {
    started += 10;
    const client = new Running(['attach', id, command?.id ?? ''], { SANDBOXD_HOST: last.url });
    setTimeout(() => client.child.kill('SIGKILL'), 500);
    if (started % 100 !== 0) return last.api;
    process.stderr.write(`${started} of ${COMMANDS} detached commands\n`);
    await last.end('SIGKILL');
    last = await spawnDaemon(directories);
    return last.api;
  });
  console.log(`${COMMANDS} detached commands, ${failures} failures`);
  return failures === 0;
}

async function runMany({ api }: Daemon, id: string, count: number): Promise<void> {
  const kinds: readonly (() => Promise<unknown>)[] = [
    () => expect('echo hi', { stdout: 'hi\n', code: 0 }),
    () => expect('head -c 300000 /dev/zero | tr "\\0" x; exit 5', { stdout: 'x'.repeat(300_000), code: 5 }),
    () => expect('echo $$ >&2; kill -9 $$', { stdout: '', code: -1 }),
    () => expect('sleep 30 & sleep 30', { stdout: '', code: -1 }, { timeout_s: 1 }),
    () => leave(),
  ];
  const expect = async (script: string, want: { stdout: string; code: number }, options = {}) => {
    const { stdout, result } = await api.exec(id, ['sh', '-c', script], options);
    if (stdout === want.stdout && result.exit_code === want.code) return;
    throw new Error(`${script}: got ${JSON.stringify(result)} and ${stdout.length} bytes`);
  };
  const leave = async () => {
    const client = new AbortController();
    const body = JSON.stringify({ cmd: ['sh', '-c', 'yes'] });
    const response = await api.fetch(`/sandboxes/${id}/exec`, {
      method: 'POST',
      body,
      signal: client.signal,
    });
    await response.body?.getReader().read();
    client.abort();
  };
  let started = 0;
  const work = async () => {
    while (started < count) {
      const at = started++;
      await kinds[at % 50 === 0 ? 3 : at % 10 === 0 ? 4 : at % 3]?.();
      if (at > 0 && at % 200 === 0) process.stderr.write(`${at} of ${count}\n`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT }, work));
}

/** Reads once the values are stable, or the time is up. */
async function readLevels({ pid, api }: Daemon, id: string): Promise<Levels> {
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const guest = await api.sh(
    id,
    'ls /proc/1/fd | wc -l; grep Anonymous /proc/1/smaps_rollup | tr -dc 0-9; echo; ' +
      'find /sys/fs/cgroup -mindepth 1 -type d | wc -l; ls -d /proc/[0-9]* | wc -l',
  );
  const [guestFds = 0, guestKib = 0, guestCgroups = 0, guestProcesses = 0] = guest.split('\n').map(Number);
  const host = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return {
    hostFds: (await readdir(`/proc/${pid}/fd`)).length,
    hostMib: Math.round(Number(/^Anonymous:\s+(\d+)/m.exec(host)?.[1]) / 1024),
    guestFds,
    guestMib: Math.round(guestKib / 1024),
    guestCgroups,
    guestProcesses,
  };
}

function compare(before: Levels, after: Levels): boolean {
  let isSame = true;
  for (const name of Object.keys(MAX_GROWTH) as (keyof Levels)[]) {
    const growth = after[name] - before[name];
    const isLeak = growth > MAX_GROWTH[name];
    isSame &&= !isLeak;
    const verdict = isLeak ? `LEAK (at most ${MAX_GROWTH[name]} expected)` : 'ok';
    console.log(`  ${name.padEnd(15)} ${before[name]} → ${after[name]}  ${verdict}`);
  }
  return isSame;
}
