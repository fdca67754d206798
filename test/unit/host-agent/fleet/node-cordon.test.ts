// How a host cordons its own Node, and what becomes of a request of `sandboxd drain` that cannot be carried out.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type CordonRecord, CordonRequests } from '../../../../host-agent/src/fleet/host/cordon-requests.ts';
import { NodeCordon } from '../../../../host-agent/src/fleet/host/node-cordon.ts';
import { KubeError, type KubeRequest } from '../../../../host-agent/src/fleet/kube/client.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(60_000));

const log = pino({ level: 'silent' });
const toNode = (unschedulable: boolean) => ({
  metadata: { name: 'h0', uid: 'u1', labels: {}, annotations: {} },
  spec: { unschedulable },
});

function openCordon(answer: (request: KubeRequest) => Promise<unknown>) {
  const seen: boolean[] = [];
  const requests: KubeRequest[] = [];
  let isThere = false;
  let read = async (): Promise<unknown> => toNode(isThere);
  const cordon = new NodeCordon({
    client: {
      request: async (request) => {
        requests.push(request);
        return await answer(request);
      },
    },
    ...{ name: 'h0', nodeUid: () => 'u1', signal: new AbortController().signal, log },
    findNode: () => read(),
    onCordon: async (isCordoned) => {
      seen.push(isCordoned);
    },
  });
  const become = (next: boolean, slowly?: () => Promise<unknown>): void => {
    isThere = next;
    read = slowly ?? (async () => toNode(isThere));
  };
  return { cordon, seen, requests, become };
}

t.test('only the Node that this host has registered is changed, and only that of it', async (t) => {
  const { cordon, seen, requests } = openCordon(async ({ body }) =>
    toNode((body as { spec: { unschedulable: unknown } }).spec.unschedulable === true),
  );
  await cordon.set(true);
  await cordon.set(true);
  await cordon.set(false);
  t.same(seen, [true, false]);
  const path = '/api/v1/nodes/h0';
  t.match(requests[0], { method: 'PATCH', path, patch: 'merge' });
  t.same(
    requests.map(({ body }) => body),
    [true, true, null].map((unschedulable) => ({ metadata: { uid: 'u1' }, spec: { unschedulable } })),
  );
});

t.test('the reason of a refusal', async (t) => {
  const message = 'nodes "h0" is forbidden: not in this cluster';
  const refused = openCordon(() => Promise.reject(new KubeError(403, 'Forbidden', message)));
  await t.rejects(refused.cordon.set(true), {
    code: 'upstream',
    message: `the node h0 is not cordoned: ${message}`,
  });
  await t.rejects(refused.cordon.set(false), { message: `the node h0 is not uncordoned: ${message}` });
  t.same(refused.seen, []);
  const unknown = new NodeCordon({
    client: { request: () => Promise.reject(new Error('asked')) },
    ...{ name: 'h0', nodeUid: () => undefined, findNode: async () => undefined },
    ...{ onCordon: async () => undefined, signal: new AbortController().signal, log },
  });
  await t.rejects(unknown.set(true), { message: /this host has not joined its fleet yet/ });
});

t.test('what was read before a change does not undo it', async (t) => {
  const { cordon, seen, become } = openCordon(async () => {
    become(true);
    return toNode(true);
  });
  await cordon.follow();
  const gate = Promise.withResolvers<void>();
  become(false, async () => {
    await gate.promise;
    return toNode(false);
  });
  const [read, written] = [cordon.follow(), cordon.set(true)];
  gate.resolve();
  await Promise.all([read, written]);
  await cordon.follow();
  t.same(seen, [false, true]);
});

/** A table in memory. */
function makeRecords() {
  const all = new Map<string, CordonRecord>();
  return {
    all,
    get: (id: string) => all.get(id),
    latest: (id: string) => all.get(id),
    put: async (id: string, record: CordonRecord) => void all.set(id, record),
    remove: async (id: string) => void all.delete(id),
    atomically: async <R>(change: () => R): Promise<R> => change(),
  };
}

function openRequests(t: Test, setCordoned: (isCordoned: boolean) => Promise<void>) {
  const records = makeRecords();
  const requests = new CordonRequests({
    ...{ records, setCordoned, log, pollMs: 5 },
    assertPossible: () => undefined,
  });
  requests.start();
  t.teardown(() => requests.stop());
  return { records, requests };
}

t.test('a request is refused once, with the reason', async (t) => {
  let tries = 0;
  const { records } = openRequests(t, async () => {
    tries += 1;
    throw new Error('no such node');
  });
  await records.put('request', { sinceMs: 1, isCordoned: true });
  await until(() => records.get('request')?.refusal !== undefined, 'refused');
  t.same(records.get('request'), { sinceMs: 1, isCordoned: true, refusal: 'no such node' });
  await records.put('request', { sinceMs: 2, isCordoned: false });
  await until(() => records.get('request')?.refusal !== undefined, 'refused, too');
  t.equal(tries, 2);
});

t.test('a request that replaces one that is carried out is carried out, too', async (t) => {
  const gate = Promise.withResolvers<void>();
  const asked: boolean[] = [];
  const { records } = openRequests(t, async (isCordoned) => {
    asked.push(isCordoned);
    if (isCordoned) await gate.promise;
  });
  await records.put('request', { sinceMs: 1, isCordoned: true });
  await until(() => asked.length > 0, 'asked');
  await records.put('request', { sinceMs: 2, isCordoned: false });
  gate.resolve();
  await until(() => records.all.size === 0, 'carried out');
  t.same(asked, [true, false]);
});

t.test('a daemon that stops leaves a request to the next one', async (t) => {
  const gate = Promise.withResolvers<void>();
  let isAsked = false;
  const { records, requests } = openRequests(t, async () => {
    isAsked = true;
    await gate.promise;
  });
  await records.put('request', { sinceMs: 1, isCordoned: true });
  await until(() => isAsked, 'asked');
  const stopped = requests.stop();
  gate.reject(new Error('aborted'));
  await stopped;
  t.same(records.get('request'), { sinceMs: 1, isCordoned: true });
});
