// A sandbox that is paused and resumed on real guests: what goes on, over many cycles (1,000 with SOAK=1, or as many as
// SOAK_CYCLES says), over daemons that are killed at a step (each step with SOAK=1), and for many clients at once.
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { SandboxJson } from '../support/api.ts';
import { Commands, seqsOf, textOf, upTo } from '../support/commands.ts';
import { COUNT, START_COUNTING } from '../support/counter.ts';
import {
  type Daemon,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { clockSkewS, NOW } from '../support/guest-clock.ts';
import { findViolations } from '../support/invariants.ts';
import { ECHO, EchoClient, LOAD } from '../support/sleep-load.ts';
import { scaled, TIME_SCALE } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';

const IS_SOAK = process.env.SOAK === '1';
/** The lab's one CPU is also theirs: so many do not send their requests in time there. */
const CLIENTS = TIME_SCALE > 1 ? 50 : 200;
const CYCLES = Number(process.env.SOAK_CYCLES ?? (IS_SOAK ? 1000 : 5));

t.setTimeout(scaled(CYCLES * 60_000 + 900_000));

const pause = ({ api }: Daemon, id: string, body = {}): Promise<SandboxJson> =>
  api.ask('pauseSandbox', { params: { id }, body });
const resume = ({ api }: Daemon, id: string): Promise<SandboxJson> =>
  api.ask('resumeSandbox', { params: { id }, body: {} });
const stateOf = async ({ api }: Daemon, id: string): Promise<string> =>
  (await api.ask('getSandbox', { params: { id } })).state;

/** A port that no other program has now. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

t.test(
  `${CYCLES} pauses under load: memory, files, counter, output, connection and identity go on`,
  async (t) => {
    const daemon = await startDaemon(t);
    const { api } = daemon;
    const port = await freePort();
    const { id } = await api.create({
      memory_mib: 256,
      publish: [{ host_port: port, guest_port: 8000 }],
      service: { cmd: ['perl', '-e', ECHO] },
    });
    const commands = new Commands(api, id);
    const load = await commands.sh(`exec perl -e '${LOAD}'`, { output_buffer_bytes: 8_000_000 });
    await api.sh(id, `${START_COUNTING}; echo kept > /dev/shm/note`);
    const IDENTITY = 'cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname; hostname -I';
    const identity = await api.sh(id, IDENTITY);
    const client = await EchoClient.open(port);
    t.teardown(() => client.close());
    const written: number[] = [];
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const before = Number(await api.sh(id, COUNT));
      const steps = (await commands.get(load)) as { state: string; output?: { next_seq: number } };
      if (steps.state !== 'running') t.fail(`the load ended: ${JSON.stringify(steps)}`);
      await pause(daemon, id);
      if (cycle % 100 === 0) {
        t.equal(await stateOf(daemon, id), 'paused');
        t.same(await vmmPids(id), [], 'it has no process');
      }
      if (cycle % 2 === 0) await resume(daemon, id);
      const after = Number(await api.sh(id, COUNT));
      if (!(after >= before)) t.fail(`cycle ${cycle}: the counter went from ${before} to ${after}`);
      if (cycle % 10 === 0) {
        t.equal(await api.sh(id, IDENTITY), identity);
        t.equal(await api.sh(id, 'cat /dev/shm/note'), 'kept');
        t.equal(await client.say(`cycle ${cycle}`), `cycle ${cycle}`, 'the connection goes on');
        t.ok((await clockSkewS(() => api.sh(id, NOW))) < 2, 'its clock is right');
      }
      if (cycle % 25 === 24) process.stderr.write(`${cycle + 1} of ${CYCLES} pauses\n`);
    }
    for (const { msg, bytes } of daemon.log) if (msg === 'sandbox paused') written.push(Number(bytes));
    t.comment(`MiB written by each pause: ${written.slice(0, 12).map((each) => Math.round(each / 2 ** 20))}`);
    t.ok(Number(written[1]) < Number(written[0]) / 2, 'the second pause writes what changed');
    await commands.kill(load, 0);
    const lines = await commands.lines(load, 'from=0');
    t.same(seqsOf(lines), upTo(seqsOf(lines).length), 'no record of its output is missing');
    const numbers = textOf(lines).trim().split('\n');
    t.same(numbers, upTo(numbers.length).map(String), 'and no line');
    t.match(await api.call('GET', `/sandboxes/${id}/service`), { state: 'running', restarts: 0 });
    t.match(await (await fetch(`${api.url}/sandboxes/${id}/logs?since=0`)).text(), /exec cmd_/);
    // A template may be made meanwhile, on a machine that is slow.
    let found = await findViolations(daemon);
    for (let tries = 0; found.length > 0 && tries < 60; tries++) {
      await sleep(1000);
      found = await findViolations(daemon);
    }
    t.same(found, []);
  },
);

t.test(`${CLIENTS} clients on one paused sandbox`, async (t) => {
  const daemon = await startDaemon(t);
  const { id } = await daemon.api.create({ memory_mib: 128 });
  await pause(daemon, id);
  const answers = await Promise.all(
    upTo(CLIENTS).map(() => daemon.api.call('GET', `/sandboxes/${id}/commands`)),
  );
  t.equal(answers.length, CLIENTS);
  t.equal(daemon.log.filter(({ msg }) => msg === 'sandbox resumed').length, 1);
  const cut = daemon.api.exec(id, ['sleep', '1000']);
  while ((await daemon.api.sh(id, 'pgrep -x sleep | wc -l')) !== '1') await sleep(100);
  await pause(daemon, id);
  t.match((await cut).result, { exit_code: -1, error: /was paused/ }, 'a client is told why its stream ends');
  t.equal(await daemon.api.sh(id, 'pgrep -x sleep | wc -l'), '1', 'its command goes on');
});

t.test('the disk alone: it boots again under its name', async (t) => {
  const daemon = await startDaemon(t);
  const { id } = await daemon.api.create({ memory_mib: 128, service: { cmd: ['sleep', '1000'] } });
  const machineId = await daemon.api.sh(
    id,
    'echo disk > /root/file; echo memory > /dev/shm/file; cat /etc/machine-id',
  );
  await pause(daemon, id, { memory: false });
  const script = 'cat /etc/machine-id /root/file; ls /dev/shm; hostname; pgrep -x sleep | wc -l';
  t.equal(await daemon.api.sh(id, script), `${machineId}\ndisk\n${id.replace('_', '-')}\n1`);
});

t.test('a daemon that is killed at steps of a pause and a resume', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const faultsPath = join(directories.dataDir, 'faults');
  const options = { onExit: 'keep', faultsPath } as const;
  let daemon = await spawnDaemon(directories, options);
  const { id } = await daemon.api.create({ memory_mib: 128 });
  await daemon.api.sh(id, `${START_COUNTING}; echo disk > /root/file`);
  let last = 0;
  const check = async (what: string): Promise<void> => {
    const count = Number(await daemon.api.sh(id, COUNT));
    t.ok(count >= last, `${what}: ${count} follows ${last}`);
    last = count;
    t.equal(await daemon.api.sh(id, 'cat /root/file'), 'disk', what);
    t.equal((await vmmPids(id)).length, 1, what);
  };
  const dieAt = async (point: FaultPoint, work: () => Promise<unknown>): Promise<string> => {
    writeFileSync(faultsPath, `${point} kill`);
    await work().catch(() => undefined);
    await daemon.exited;
    writeFileSync(faultsPath, '');
    daemon = await spawnDaemon(directories, options);
    return await stateOf(daemon, id);
  };
  const before: FaultPoint[] = ['pause.memory', 'pause.paused', 'pause.written'];
  const after: FaultPoint[] = ['pause.recorded', 'pause.killed', 'pause.applied', 'pause.settled'];
  const running: FaultPoint[] = [...(IS_SOAK ? before : []), 'pause.flushed'];
  const paused: FaultPoint[] = ['pause.durable', ...(IS_SOAK ? after : [])];
  const resumed: FaultPoint[] = IS_SOAK
    ? ['start.spawned', 'start.spawn-recorded', 'resume.recorded', 'resume.awake', 'resume.woken']
    : ['resume.awake'];
  for (const point of [...running, ...paused]) {
    const state = await dieAt(point, () => pause(daemon, id));
    t.equal(state, running.includes(point) ? 'running' : 'paused', point);
    await check(point);
  }
  for (const point of resumed) {
    await pause(daemon, id);
    const state = await dieAt(point, () => resume(daemon, id));
    t.equal(state, ['resume.awake', 'resume.woken'].includes(point) ? 'running' : 'paused', point);
    await check(point);
  }
  await pause(daemon, id);
  await daemon.end();
  daemon = await spawnDaemon(directories, options);
  t.equal(await stateOf(daemon, id), 'paused', 'a restart leaves it as it is');
  const [pid] = await vmmPids(id);
  t.equal(pid, undefined);
  await check('restart');
  const [vmm = 0] = await vmmPids(id);
  const killed = pause(daemon, id).catch((error: Error) => error);
  process.kill(vmm, 'SIGKILL');
  t.match(await killed, { message: /is dead: the VMM was killed by SIGKILL/ });
  t.equal(await stateOf(daemon, id), 'failed');
  await daemon.api.delete(id);
  t.same(
    await readFile(join(directories.dataDir, 'sandboxes', id, 'layer.ext4')).catch(() => 'gone'),
    'gone',
  );
  await daemon.end();
  t.same(await leftovers(directories), []);
});
