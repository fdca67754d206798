// Sandboxes that change their host with their id: daemons with own data directories over one bucket, and a kill at each
// step of a move.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { Table } from '../../host-agent/src/store/store.ts';
import { type MemoryDaemonOptions, makeHome } from '../support/memory-host/daemon.ts';
import { openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { eventually, prepareHosts } from './store-hosts.ts';

t.setTimeout(scaled(300_000));

type Hosts = Awaited<ReturnType<typeof prepareHosts>>;
type Host = Awaited<ReturnType<Hosts['start']>>;
type Sandbox = { id: string; state: string; name?: string; labels?: object };

async function create(host: Host, options: object = {}): Promise<string> {
  const { id } = await host.manager.create({ name: 'worker', labels: { team: 'a' }, ...options });
  const request = { cmd: ['note', 'where', 'there'], env: {}, cwd: '', timeout_s: 0 } as never;
  await new Promise((exit) => host.manager.get(id).exec(request, { output: () => undefined, exit }));
  return id;
}

const progressOf = (host: Host) => host.manager.moves.drain.progress();
const resume = (host: Host, id: string) => host.ask<Sandbox>('POST', `/sandboxes/${id}/resume`);
const drained = (host: Host) => eventually(() => progressOf(host).state === 'drained');

async function drain(host: Host): Promise<void> {
  await host.manager.moves.drain.begin();
  await drained(host);
}

const parkedIn = ({ s3 }: Hosts) => [...s3.objects.keys()].filter((key) => key.includes('/sandboxes/'));

t.test('a drained host offers its sandboxes, and another goes on with them under their ids', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a, { env: { GREETING: 'hello' } });
  await drain(a);
  t.match(progressOf(a), { state: 'drained', sandboxes: [{ id, state: 'offered' }] });
  const refused = await a.ask('POST', '/sandboxes', {});
  t.match(refused, { status: 503, body: { error: /being drained/ } });
  t.match(await resume(a, id), { status: 503, body: { error: /moves to another host/ } });
  t.equal((await a.ask('PATCH', `/sandboxes/${id}`, { labels: { team: 'b' } })).status, 503);

  t.match(await resume(b, id), {
    status: 200,
    body: { id, state: 'running', name: 'worker', labels: { team: 'a' } },
  });
  t.same(b.manager.get(id).info.envNames, ['GREETING']);
  t.equal(b.notesOf(id).where, 'there');
  await eventually(() => a.manager.find(id) === undefined);
  t.equal((await a.ask('GET', `/sandboxes/${id}`)).status, 404);
  t.match(a.happened.at(-1), { kind: 'moved', sandbox: id });
  t.notMatch(a.happened, [{ kind: 'deleted' }]);
  t.match(progressOf(a), { state: 'drained', moved: 1, sandboxes: [] });
  t.same(parkedIn(hosts), [], 'its files leave the bucket');

  t.equal((await b.ask('POST', `/sandboxes/${id}/pause`, {})).status, 200);
  await b.crash();
  const again = await hosts.start({ home: b.home });
  t.match(await resume(again, id), { status: 200, body: { id, state: 'running' } });
  t.equal(again.notesOf(id).where, 'there');
  await drain(again);
  await a.manager.moves.drain.cancel();
  t.match(await resume(a, id), { status: 200, body: { id, state: 'running' } }, 'and back');
  t.equal(a.notesOf(id).where, 'there');
});

t.test('many hosts that ask for one sandbox: one has it', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const others = [await hosts.start(), await hosts.start(), await hosts.start()];
  const id = await create(a);
  await drain(a);
  const answers = await Promise.all([...others, ...others].map((host) => resume(host, id)));
  const statuses = answers.map(({ status }) => status);
  t.equal(others.filter(({ manager }) => manager.find(id) !== undefined).length, 1, `${statuses}`);
  t.ok(
    statuses.every((status) => [200, 404, 409].includes(status)),
    `${statuses}`,
  );
  await eventually(() => a.manager.find(id) === undefined);
});

t.test('a cancelled drain: what no other host has is as before', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const running = await create(a);
  const paused = await create(a, { name: 'paused' });
  await a.ask('POST', `/sandboxes/${paused}/pause`, {});
  const moved = await create(a, { name: 'moved' });
  await drain(a);
  t.equal((await resume(b, moved)).status, 200);
  await a.manager.moves.drain.cancel();
  await eventually(() => a.manager.find(moved) === undefined && a.manager.get(running).state === 'running');
  t.equal(a.notesOf(running).where, 'there');
  t.equal(a.manager.get(paused).state, 'paused');
  for (const id of [running, paused]) t.equal((await resume(b, id)).status, 404);
  t.match(progressOf(a), { state: 'off', sandboxes: [] });
  t.equal((await a.ask('POST', '/sandboxes', {})).status, 201);
});

t.test('a drain that is cancelled while a sandbox is paused', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const id = await create(a);
  const sandbox = a.manager.find(id);
  // The pause waits for another client's snapshot.
  const gate = Promise.withResolvers<void>();
  const held = sandbox?.snapshotQueue.add(() => gate.promise);
  await a.manager.moves.drain.begin();
  await eventually(() => sandbox?.isDeparting === true);
  await a.manager.moves.drain.cancel();
  gate.resolve();
  await held;
  await eventually(() => sandbox?.isDeparting === false && sandbox.state === 'running');
  t.match(progressOf(a), { state: 'off', sandboxes: [] });
  t.same(parkedIn(hosts), []);
  t.match(await resume(a, id), { status: 200 });
});

t.test('a drain that is cancelled while the bucket refuses', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const id = await create(a);
  await drain(a);
  hosts.s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  await a.manager.moves.drain.cancel();
  await sleep(500);
  t.match(await resume(a, id), { status: 503 });
  hosts.s3.fault = () => undefined;
  await eventually(() => a.manager.get(id).state === 'running');
  t.equal(a.notesOf(id).where, 'there');
  t.match(progressOf(a), { state: 'off', sandboxes: [] });
});

t.test('a client that may not see a sandbox keeps it from no other', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  await drain(a);
  const stranger = b.manager.moves.takeOver(id, () => false);
  const owner = b.manager.moves.takeOver(id, () => true);
  await t.rejects(stranger, { code: 'not_found' });
  t.equal((await owner).sandbox.id, id);
});

t.test('a sandbox that is deleted while it is offered arrives nowhere', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  await drain(a);
  t.equal((await a.ask('DELETE', `/sandboxes/${id}`)).status, 204);
  t.equal((await resume(b, id)).status, 404);
  const second = await create(b);
  await drain(b);
  hosts.s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  t.equal((await b.ask('DELETE', `/sandboxes/${second}`)).status, 502, 'who has it is not known');
  hosts.s3.fault = () => undefined;
  t.equal((await b.ask('DELETE', `/sandboxes/${second}`)).status, 204);
});

t.test('one that was paused without its memory boots where it arrives', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  await a.ask('POST', `/sandboxes/${id}/pause`, { memory: false });
  await drain(a);
  t.match(await resume(b, id), { status: 200, body: { id, state: 'running', name: 'worker' } });
});

t.test('a host that it does not fit takes nothing, and it stays offered', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const limits = { vcpus: 1, memoryMib: 64, diskBytes: 2 ** 30, sandboxes: 10, fork: 8 };
  const [small, b] = [await hosts.start({ limits }), await hosts.start()];
  const id = await create(a);
  await create(b);
  await drain(a);
  t.match(await resume(small, id), {
    status: 400,
    body: { error: /memory_mib is 128, and at most 64 here/ },
  });
  t.match(await resume(b, id), { status: 409, body: { error: /the name worker is that of sandbox/ } });
  t.equal((await a.ask('GET', `/sandboxes/${id}`)).status, 200);
  const [other] = b.manager.list();
  await b.ask('DELETE', `/sandboxes/${other?.id}`);
  t.equal((await resume(b, id)).status, 200);
});

t.test('a server without conditional writes moves nothing', async (t) => {
  const hosts = await prepareHosts(t);
  hosts.s3.isConditional = false;
  const a = await hosts.start();
  const id = await create(a);
  await a.manager.moves.drain.begin();
  await eventually(() => /no conditional writes/.test(progressOf(a).sandboxes[0]?.reason ?? ''));
  t.equal(a.manager.get(id).state, 'running');
  t.same(parkedIn(hosts), []);
});

t.test('a host without a snapshot store is not drained', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start({ snapshotStore: undefined });
  await t.rejects(a.manager.moves.drain.begin(), { code: 'unsupported' });
  t.equal((await resume(a, 'sbx_0000000000000')).status, 404);
});

/** A daemon that is killed at a point: from then on it writes nothing, neither here nor in the bucket. */
function makeDoomed(t: Test, { settings }: Hosts, point: FaultPoint) {
  let isDead = false;
  const faults = {
    reach: (reached: FaultPoint) => {
      if (reached === point) isDead = true;
      if (isDead) throw new Error(`killed at ${point}`);
    },
  };
  const writes = new Set<string | symbol>(['put', 'putAll', 'remove', 'atomically']);
  const doomed = <T extends object>(target: T, isWrite: (name: string | symbol) => boolean): T =>
    new Proxy(target, {
      get: (_, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name === 'parked') return doomed(value as object, () => true);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          if (isDead && isWrite(name)) return Promise.reject(new Error('killed'));
          return value.apply(target, args);
        };
      },
    });
  const table = <T>(target: Table<T>) => doomed(target, (name) => writes.has(name));
  const options: MemoryDaemonOptions = {
    faults,
    changeRecords: table,
    changeMoves: ({ departures, arrivals, drain }) => ({
      departures: table(departures),
      arrivals: table(arrivals),
      drain: table(drain),
    }),
    snapshotStore: doomed(openTestStore(t, settings).store, () => true),
  };
  return { options, isDead: () => isDead };
}

const LEAVING = ['move.paused', 'move.recorded', 'move.sent', 'move.offered', 'move.published'] as const;
for (const point of LEAVING)
  t.test(`the leaving host is killed at ${point}: the sandbox is on one host`, async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const doomed = makeDoomed(t, hosts, point);
    const a = await hosts.start({ home, ...doomed.options });
    const b = await hosts.start();
    const id = await create(a);
    await a.manager.moves.drain.begin();
    await eventually(doomed.isDead);
    await sleep(50);
    await a.crash();
    // While the host is gone, another has it if, and only if, it was offered.
    const early = await resume(b, id);
    t.equal(early.status, point === 'move.published' ? 200 : 404);
    const again = await hosts.start({ home });
    if (early.status === 200) await eventually(() => again.manager.find(id) === undefined);
    else {
      await drained(again);
      t.equal((await resume(b, id)).status, 200);
      await eventually(() => again.manager.find(id) === undefined);
    }
    t.equal(b.notesOf(id).where, 'there');
    t.same(parkedIn(hosts), []);
  });

for (const isTaken of [false, true])
  t.test(`a return is cut off, and ${isTaken ? 'another host' : 'none'} asks for the sandbox`, async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const doomed = makeDoomed(t, hosts, 'move.taken-back');
    const a = await hosts.start({ home, ...doomed.options });
    const b = await hosts.start();
    const id = await create(a);
    await drain(a);
    await a.manager.moves.drain.cancel();
    await eventually(doomed.isDead);
    await sleep(50);
    await a.crash();
    if (isTaken) t.equal((await resume(b, id)).status, 404);
    const again = await hosts.start({ home });
    await eventually(() => again.manager.get(id).state === 'running');
    t.equal(again.notesOf(id).where, 'there');
    t.equal((await resume(b, id)).status, 404);
  });

for (const point of ['arrival.fetched', 'arrival.claimed', 'arrival.recorded'] as const)
  t.test(`the host where it arrives is killed at ${point}: the sandbox is on one host`, async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const doomed = makeDoomed(t, hosts, point);
    const [a, c] = [await hosts.start(), await hosts.start()];
    const b = await hosts.start({ home, ...doomed.options });
    const id = await create(a);
    await drain(a);
    t.not((await resume(b, id)).status, 200);
    t.ok(doomed.isDead());
    await b.crash();
    const other = await resume(c, id);
    t.equal(other.status, point === 'arrival.fetched' ? 200 : 404, 'the holder of the claim has the sandbox');
    const again = await hosts.start({ home });
    await eventually(() => a.manager.find(id) === undefined);
    if (other.status === 200) t.equal((await resume(again, id)).status, 404);
    else {
      await eventually(() => again.manager.find(id) !== undefined);
      t.equal((await resume(again, id)).status, 200);
      t.equal(again.notesOf(id).where, 'there');
    }
    await eventually(() => parkedIn(hosts).length === 0);
  });
