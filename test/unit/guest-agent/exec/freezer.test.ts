// Freezing and thawing commands and the service: real processes in cgroups of this machine.
import '../support/addon-dir.ts';
import { mkdtempSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Channel, RequestInput, Result } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { mountCgroups } from '../support/cgroup-mount.ts';
import { type LocalAgent, run, sendInput, startLocalAgent } from '../support/local-agent.ts';

if (process.getuid?.() !== 0) t.bailout('cgroups are made as root: run these tests as root');

const mount = mountCgroups();

function startAgent(t: Test): LocalAgent & { readonly root: string } {
  const root = mkdtempSync(join(mount, 'sandboxd-'));
  t.teardown(async () => {
    // The agent removes the last cgroup shortly after the result.
    await sleep(100);
    for (const name of readdirSync(join(root, 'exec'))) {
      if (/^\d+$/.test(name)) rmdirSync(join(root, 'exec', name));
    }
    rmdirSync(join(root, 'exec'));
    rmdirSync(root);
  });
  return { ...startLocalAgent(t, { cgroupRoot: root }), root };
}

function call(channel: Channel, request: RequestInput): Promise<Result> {
  return new Promise((resolve, reject) => {
    channel.open(request, { result: resolve, lost: ({ kind }) => reject(new Error(`lost: ${kind}`)) });
  });
}

const freeze = async (channel: Channel, isFrozen: boolean) =>
  t.same((await call(channel, { freeze: { isFrozen } })).freeze, {});
/** The letter of a process's state; "T" when a signal stopped it. */
const stateOf = (pid: number): string =>
  /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
/** User-space progress as the kernel counts it: clock ticks and voluntary switches. */
const progressOf = (pid: number): string =>
  readFileSync(`/proc/${pid}/status`, 'utf8').match(/^voluntary_ctxt_switches:.*$/m)?.[0] ?? '';

t.test('running processes freeze in any state, and continue from there', async (t) => {
  const agent = startAgent(t);
  const channel = await agent.connect();
  const busy = run(channel, ['sh', '-c', 'while :; do :; done'], { timeoutMs: 60_000 });
  const sleeping = run(channel, ['sh', '-c', 'while :; do sleep 0.01; done'], { timeoutMs: 60_000 });
  const reading = run(channel, ['head', '-n', '1'], { stdin: true });
  const stopped = run(channel, ['sleep', '1000']);
  const pids = await Promise.all([busy, sleeping, reading, stopped].map(({ started }) => started));
  const [busyPid = 0, sleepingPid = 0, , stoppedPid = 0] = pids;
  process.kill(stoppedPid, 'SIGSTOP');
  await freeze(channel, true);
  t.match(readFileSync(join(agent.root, 'exec', 'cgroup.events'), 'utf8'), /frozen 1/);
  // A process that was woken while it froze counts one more switch.
  await sleep(50);
  const before = [progressOf(sleepingPid), readFileSync(`/proc/${busyPid}/stat`, 'utf8')];
  sendInput(reading.stream, Buffer.from('line\n'));
  await sleep(200);
  t.same([progressOf(sleepingPid), readFileSync(`/proc/${busyPid}/stat`, 'utf8')], before);

  await t.test('nothing is started meanwhile, and the agent answers', async (t) => {
    t.match(await call(channel, { exec: { cmd: ['true'] } }), { error: { code: 'busy' } });
    t.ok((await call(channel, { stats: {} })).stats);
  });

  await freeze(channel, false);
  t.match(await reading.done, { out: 'line\n', exec: { exitCode: 0 } });
  t.equal(stateOf(stoppedPid), 'T', 'what a signal stopped is still stopped');
  t.match(await run(channel, ['true']).done, { exec: { exitCode: 0 } });
  while (progressOf(sleepingPid) === before[0]) await sleep(10);
  for (const { stream } of [busy, sleeping, stopped]) stream.cancel();
  for (const { done } of [busy, sleeping, stopped]) t.match((await done).exec, { signal: 'SIGKILL' });
});

t.test('who is frozen can be ended, by a limit in time as well', async (t) => {
  const agent = startAgent(t);
  const channel = await agent.connect();
  const limited = run(channel, ['sleep', '1000'], { timeoutMs: 300 });
  const cancelled = run(channel, ['sleep', '1000']);
  await Promise.all([limited.started, cancelled.started]);
  await freeze(channel, true);
  cancelled.stream.cancel();
  t.match((await cancelled.done).exec, { signal: 'SIGKILL', timedOut: false });
  t.match((await limited.done).exec, { signal: 'SIGKILL', timedOut: true });
  await freeze(channel, false);
});

t.test(
  'a service that is to be started again waits for the thaw, and the agent does not wait for it',
  async (t) => {
    const agent = startAgent(t);
    const channel = await agent.connect();
    const cmd = ['sleep', '1000'];
    const spec = {
      cmd,
      stopSignal: 'SIGTERM',
      stopGraceMs: 1000,
      restartPolicy: 'always',
      logBufferBytes: 65_536,
    };
    const { serviceStatus } = await call(channel, { serviceConfigure: { spec } });
    const pid = Number(serviceStatus?.pid);
    await freeze(channel, true);
    process.kill(pid, 'SIGKILL');
    const stateNow = async () => (await call(channel, { serviceControl: { verb: 0 } })).serviceStatus?.state;
    while ((await stateNow()) !== 'starting') await sleep(10);
    await freeze(channel, false);
    const after = (await call(channel, { serviceControl: { verb: 0 } })).serviceStatus;
    t.match(after, { state: 'running', restarts: 1 });
    t.not(Number(after?.pid), pid);
    await call(channel, { serviceControl: { verb: 2 } });
  },
);

t.test('a hello of the same host lets it go on, one to a copy does not', async (t) => {
  const agent = startAgent(t);
  const source = await agent.connect('source');
  const process = run(source, ['sh', '-c', 'while :; do sleep 0.01; done'], { timeoutMs: 60_000 });
  process.done.catch(() => undefined);
  const pid = await process.started;
  await freeze(source, true);
  const copy = await agent.connect('copy');
  // A process that counts as frozen may yet have to give up its CPU, which is counted as well.
  await sleep(50);
  const before = progressOf(pid);
  await sleep(100);
  t.equal(progressOf(pid), before, 'it has yet to say who the copy is');
  t.match(await call(copy, { exec: { cmd: ['true'] } }), { error: { code: 'busy' } });
  const again = await agent.connect('source');
  t.match(await run(again, ['true']).done, { exec: { exitCode: 0 } });
  t.match(await run(again, ['kill', '-9', String(pid)]).done, { exec: { exitCode: 0 } });
});
