// Two tenants of one daemon: what one creates does not exist for the other, by any call.

import { pino } from 'pino';
import t from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { endIdle } from '../../../../host-agent/src/sandboxes/idle/timeout-actions.ts';
import { LifecycleEvents } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import {
  assertCanPublish,
  resolveSandboxOptions,
} from '../../../../host-agent/src/sandboxes/resolve-create.ts';
import type { SnapshotInfo } from '../../../../host-agent/src/sandboxes/types.ts';
import { readAll, source } from '../../../support/archives.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';

t.test('nothing of another tenant can be seen, used or deleted', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const [ours, theirs, operator] = ['red', 'blue', undefined].map((tenant) =>
    manager.as({
      kind: 'key',
      id: `id-${tenant}`,
      key: `key of ${tenant}`,
      ...(tenant !== undefined && { tenant }),
    }),
  );
  if (!ours || !theirs || !operator) throw new Error('three callers');
  const { id } = await ours.create({});
  const { id: snapshotId } = await ours.get(id).snapshot();
  const gone = { code: 'not_found', message: /does not exist$/ };
  t.same([theirs.list(), theirs.listSnapshots()], [[], []]);
  t.throws(() => theirs.get(id), gone);
  t.throws(() => theirs.getSnapshot(snapshotId), gone);
  t.throws(() => theirs.exportSnapshot(snapshotId), gone);
  await t.rejects(theirs.delete(id), gone);
  await t.rejects(theirs.deleteSnapshot(snapshotId), gone);
  await t.rejects(theirs.fork(snapshotId, 1), gone);
  t.equal(ours.getSnapshot(snapshotId).sourceId, id);
  t.equal(operator.getSnapshot(snapshotId).id, snapshotId, 'a principal without a tenant sees all');
  t.same(
    operator.list().map((sandbox) => sandbox.id),
    [id],
  );
  const [fork] = await ours.fork(snapshotId, 1);
  t.throws(() => theirs.get(fork?.id ?? ''), gone);
  const bytes = await readAll(ours.exportSnapshot(snapshotId));
  const imported = await ours.importSnapshot(source(bytes), { isDiskOnly: false });
  t.throws(() => theirs.getSnapshot(imported.id), gone);
  await ours.deleteSnapshot(imported.id);
  await ours.deleteSnapshot(snapshotId);
  await ours.delete(id);
  t.throws(() => ours.get(id), gone);
  t.equal(ours.list().length, 1);
});

t.test('snapshots are compared by id or name, and only with visible ones', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const [ours, theirs] = ['red', 'blue'].map((tenant) =>
    manager.as({ kind: 'key', id: tenant, key: tenant, tenant }),
  );
  if (!ours || !theirs) throw new Error('two callers');
  const take = async (view: typeof ours, name: string) =>
    (await view.get((await view.create({})).id).snapshot(undefined, undefined, { name })).id;
  const [a, b, c] = [await take(ours, 'same'), await take(theirs, 'same'), await take(theirs, 'own')];
  const compare = (view: typeof ours, from: string, to: string) =>
    view.compareSnapshots({ from, to, limit: 10 });
  const gone = { code: 'not_found' };
  await t.rejects(compare(ours, a, b), gone);
  await t.rejects(compare(ours, b, a), gone);
  await t.rejects(compare(ours, a, 'own'), gone);
  await t.rejects(compare(ours, a, 'snap_0000000000000'), gone);
  // The root images of these guests are no file systems.
  const read = { code: 'conflict', message: /a root image/ };
  await t.rejects(compare(ours, a, 'same'), read);
  await t.rejects(compare(theirs, c, b), read);
  const several = { code: 'conflict', message: /several snapshots/ };
  await t.rejects(compare(manager.as(OPERATOR), a, 'same'), several);
});

t.test('a command’s timeout is limited by the client’s policy', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const requests: number[] = [];
  const sandbox = manager.get(id);
  const exec = sandbox.exec.bind(sandbox);
  sandbox.exec = (request, ...rest) => {
    requests.push(request.timeout_s);
    return exec(request, ...rest);
  };
  const caller = { kind: 'key', id: 'i', key: 'k', policy: { max_timeout_s: 10 } } as const;
  for (const as of [manager.as(caller), manager.as(OPERATOR)]) {
    const awake = await as.get(id).awake();
    for (const timeout_s of [0, 5, 60])
      await new Promise((resolve) => {
        awake.exec({ cmd: ['true'], env: {}, timeout_s }, { output: () => undefined, exit: resolve });
      });
  }
  t.same(requests, [10, 5, 10, 0, 5, 60]);
});

/** How an idle sandbox ends, and the calls on the way. */
async function end(
  action: 'delete' | 'snapshot',
  {
    meanwhile = () => undefined,
    fails,
  }: { meanwhile?: (sandbox: { state: string }) => unknown; fails?: 'save' | 'remove' } = {},
) {
  const calls: string[] = [];
  const call = (name: string, value = '') => {
    calls.push(value === '' ? name : `${name} ${value}`);
    if (name === fails) throw new Error(`${name} failed`);
  };
  const events = new LifecycleEvents();
  events.subscribe(({ kind }) => call('event', kind));
  const sandbox = {
    id: 'sbx_1',
    state: 'running',
    record: { owner: { key: 'k', tenant: 'red' }, options: { idle: { timeoutS: 60, action } } },
    note: (text: string) => call('note', text),
  };
  const stop = new AbortController();
  await endIdle(sandbox as unknown as Parameters<typeof endIdle>[0], stop.signal, {
    events,
    log: pino({ level: 'silent' }),
    save: async (owner) => {
      call('save', `as ${owner?.key} of ${owner?.tenant}`);
      if (meanwhile(sandbox) === 'used') stop.abort();
      return { id: 'snap_1' } as SnapshotInfo;
    },
    deleteSnapshot: async (id) => call('deleteSnapshot', id),
    deleteOlder: async (id) => call('deleteOlder', id),
    remove: async (why) => call('remove', why),
    pause: async () => call('pause', ''),
  });
  return calls;
}

t.test('a sandbox without an idle rule, or that is not running, is not ended', async (t) => {
  const calls: string[] = [];
  const call = async () => {
    calls.push('called');
    return { id: 'snap_1' } as SnapshotInfo;
  };
  const parts = { events: new LifecycleEvents(), log: pino({ level: 'silent' }), save: call };
  const idle = { timeoutS: 60, action: 'delete' } as const;
  for (const [state, options] of [
    ['running', {}],
    ['failed', { idle }],
    ['deleting', { idle }],
  ] as const) {
    const sandbox = { id: 'sbx_1', state, record: { options }, note: () => calls.push('note') };
    const { signal } = new AbortController();
    const other = async () => void call();
    const rest = { deleteSnapshot: other, deleteOlder: other, remove: other, pause: other };
    await endIdle(sandbox as unknown as Parameters<typeof endIdle>[0], signal, { ...parts, ...rest });
  }
  t.same(calls, []);
  const callers: unknown[] = [];
  const save = async (caller: unknown) => {
    callers.push(caller);
    return { id: 'snap_1' } as SnapshotInfo;
  };
  const record = { options: { idle: { ...idle, action: 'snapshot' } } };
  const sandbox = { id: 'sbx_1', state: 'running', record, note: () => undefined };
  const nothing = async () => undefined;
  const rest = { save, deleteSnapshot: nothing, deleteOlder: nothing, remove: nothing, pause: nothing };
  const { signal } = new AbortController();
  await endIdle(sandbox as unknown as Parameters<typeof endIdle>[0], signal, { ...parts, ...rest });
  t.same(callers, [undefined], 'a sandbox without an owner is saved without one');
});

t.test('an idle sandbox is deleted, or stays unchanged', async (t) => {
  t.same(await end('delete'), ['event idle', 'remove : it was not used for its idle_timeout_s of 60']);
  t.same(await end('snapshot'), [
    'save as k of red',
    'event idle',
    'remove : it was not used for its idle_timeout_s of 60, and was saved as snap_1',
    'deleteOlder snap_1',
  ]);
  const won = ['save as k of red', 'deleteSnapshot snap_1'];
  t.same(await end('snapshot', { meanwhile: () => 'used' }), won, 'a use in the meantime keeps it');
  const died = (sandbox: { state: string }) => {
    sandbox.state = 'failed';
  };
  t.same(await end('snapshot', { meanwhile: died }), won, 'what died is not deleted for that');
  const retained = 'note idle for 60 s, but it could not be saved and stays: ';
  t.same(await end('snapshot', { fails: 'save' }), [
    'save as k of red',
    `${retained}save failed`,
    'event idle-kept',
  ]);
  t.same((await end('snapshot', { fails: 'remove' })).slice(3), [
    'deleteSnapshot snap_1',
    `${retained}remove failed`,
    'event idle-kept',
  ]);
  t.same(
    (await end('delete', { fails: 'remove' })).slice(2),
    [],
    'one that could not be deleted is tried again',
  );
});

function portsOf(count: number): Parameters<typeof assertCanPublish>[0] {
  return Array.from({ length: count }, (_, at) => ({
    hostPort: 1000 + at,
    guestPort: 80,
    protocol: 'tcp',
  })) as never;
}

t.test('published ports are for one copy with a network, and limited', async (t) => {
  const network = { allowlist: [] };
  const refused = (message: RegExp) => ({ code: 'invalid_argument', message });
  assertCanPublish([], 5, {});
  assertCanPublish(portsOf(256), 1, { network });
  t.throws(() => assertCanPublish(portsOf(1), 2, { network }), refused(/needs count 1, .* got 2$/));
  t.throws(() => assertCanPublish(portsOf(1), 1, {}), refused(/this one has none$/));
  t.throws(() => assertCanPublish(portsOf(257), 1, { network }), refused(/at most 256 ports, got 257$/));
  const resolved = (options: object) => {
    const rootfs = {
      kind: 'profile',
      name: 'p',
      digest: 'd',
      rootfsPath: '/p',
      env: {},
      workdir: '',
    } as const;
    const limits = { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 9, fork: 9 };
    const defaults = { profile: 'p', vcpus: 1, memoryMib: 512, diskBytes: 2 ** 30 };
    const { network, publish } = resolveSandboxOptions(options, rootfs, defaults, limits);
    return { network, publish };
  };
  const some = { allowlist: ['example.org'] };
  t.same(resolved({}), { network: undefined, publish: undefined });
  t.same(resolved({ network: some }), { network: some, publish: undefined });
  t.same(resolved({ publish: portsOf(1) }), { network: { allowlist: [] }, publish: portsOf(1) });
  t.same(resolved({ network: some, publish: portsOf(1) }), { network: some, publish: portsOf(1) });
  t.throws(() => resolved({ publish: portsOf(257) }), refused(/at most 256/));
});
