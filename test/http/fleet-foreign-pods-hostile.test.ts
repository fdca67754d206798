// Pods of others whose authors want more than the key of their namespace gives, or that others get less.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Policy } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { ForeignPods, type KubeClient, type PodRecord } from '../../host-agent/src/fleet/index.ts';
import type { KubeRequest } from '../../host-agent/src/fleet/kube/client.ts';
import { ask, type Fleet, type FleetHost, startFleet } from '../support/fleet/fleet.ts';
import type { KubeObject } from '../support/fleet/objects.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

t.setTimeout(scaled(240_000));

const NAMESPACE = 'sandboxd-acme';
const RESOURCES = { requests: { cpu: '100m', memory: '256Mi' }, limits: { memory: '256Mi' } };

async function makePod(
  fleet: Fleet,
  name: string,
  { namespace = NAMESPACE, label = 'pod', container = {} } = {},
): Promise<void> {
  fleet.api.namespaces.add(namespace);
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const body = {
    metadata: { name, labels: { 'sandboxd.dev/place': label } },
    spec: {
      ...{ runtimeClassName: 'sandboxd', nodeName: 'h0' },
      containers: [{ name: 'main', image: 'sandboxd.dev/profile/base', resources: RESOURCES, ...container }],
    },
  };
  await fleet.client().request({ method: 'POST', path, body });
}

function podOf(fleet: Fleet, name: string, namespace = NAMESPACE): KubeObject | undefined {
  return fleet.api.objects.find('pods', namespace, name);
}

async function phaseOf(fleet: Fleet, name: string, phase: string, namespace?: string): Promise<KubeObject> {
  await until(() => podOf(fleet, name, namespace)?.status?.phase === phase, `${name} is ${phase}`);
  return podOf(fleet, name, namespace) as KubeObject;
}

async function start(t: Test, policy?: Policy): Promise<{ fleet: Fleet; host: FleetHost; key: string }> {
  const keyring = await openKeyring(t);
  await keyring.make({ name: 'pods-acme', tenant: 'acme', ...(policy && { policy }) });
  const key = await keyring.make({ tenant: 'acme' });
  const fleet = await startFleet(t);
  const pods = { key: 'pods', keys: keyring.registry };
  const host = await fleet.host('h0', { pods, authenticator: keyring.authenticator });
  await fleet.ready(1);
  return { fleet, host, key };
}

/** A host whose sandboxes are those that the test gives. */
function openPods(
  t: Test,
  fleet: Fleet,
  given: Partial<ConstructorParameters<typeof ForeignPods>[0]['sandboxes']>,
  client = fleet.client(),
) {
  const records = new Map<string, PodRecord>();
  const made = new Set<string>();
  const pods = new ForeignPods({
    ...{ client, seal: fleet.seal, node: 'h0', namespace: 'sandboxd', log: fleet.log },
    ...{ range: undefined, hostIp: undefined, isFenced: () => false, pollMs: 100 },
    records: {
      get: (id) => records.get(id),
      all: () => [...records].map(([id, record]) => ({ id, record })),
      put: async (id, record) => void records.set(id, record),
      remove: async (id) => records.delete(id),
    },
    sandboxes: {
      stateOf: (id) => (made.has(id) ? { state: 'running' } : undefined),
      delete: async (id) => void made.delete(id),
      subscribe: () => () => undefined,
      assertAllowed: () => undefined,
      create: async ({ id }) => void made.add(id),
      service: async () => ({ state: 'running', restarts: 0 }) as never,
      stopService: async () => undefined,
      isReady: async () => true,
      ...given,
    },
  });
  pods.start();
  t.teardown(() => pods.stop());
  return { records, made };
}

t.test('an environment without end, a key without create, and a label of gateways are refused', async (t) => {
  const { fleet, host } = await start(t, { operations: ['view', 'exec'] });
  const env = [{ name: 'A0', value: 'x'.repeat(1000) }];
  for (let n = 1; n < 60; n++) env.push({ name: `A${n}`, value: `$(A${n - 1})$(A${n - 1})` });
  await makePod(fleet, 'one', { container: { env } });
  t.match((await phaseOf(fleet, 'one', 'Failed')).status, { reason: 'Forbidden', message: /create/ });
  await makePod(fleet, 'two', { label: 'true' });
  t.match((await phaseOf(fleet, 'two', 'Failed')).status, { reason: 'NoPlaceLabel', message: /place: pod/ });
  t.equal(host.daemon.manager.list().length, 0);
});

t.test('a pod with a copy of a seal has one sandbox, which ends with it', async (t) => {
  const { fleet, host, key } = await start(t);
  const acme = { authorization: `Bearer ${key}` };
  fleet.api.namespaces.add(NAMESPACE);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', { vcpus: 1, memory_mib: 256 }, acme);
  const name = String(body.id).replace('_', '-');
  const copied = podOf(fleet, name)?.metadata.annotations ?? {};
  await ask(url, 'DELETE', `/sandboxes/${body.id}`, undefined, acme);
  await until(() => podOf(fleet, name) === undefined, 'no pod');
  await makePod(fleet, name);
  const pod = await phaseOf(fleet, name, 'Running');
  const id = pod.metadata.annotations?.['sandboxd.dev/id'] ?? '';
  const { 'sandboxd.dev/size': size, 'sandboxd.dev/seal': seal } = copied;
  const annotations = { 'sandboxd.dev/size': size, 'sandboxd.dev/seal': seal };
  fleet.api.objects.change('pods', pod, { metadata: { annotations } });
  // The host writes its own again.
  await until(() => podOf(fleet, name)?.metadata.annotations?.['sandboxd.dev/seal'] !== seal, 'its own seal');
  fleet.api.objects.change('pods', podOf(fleet, name) as KubeObject, { metadata: { annotations } });
  fleet.api.objects.delete('pods', NAMESPACE, name, 0);
  await until(() => host.daemon.manager.list().length === 0, 'no sandbox');
  await until(() => host.podRecords.all().length === 0, 'no record');
  const found = async () => (await ask(url, 'GET', `/sandboxes/${id}`, undefined, acme)).status;
  t.equal(await found(), 404);
});

t.test('a pod of a gateway whose requests are lowered ends its sandbox', async (t) => {
  const { fleet, host, key } = await start(t);
  const acme = { authorization: `Bearer ${key}` };
  fleet.api.namespaces.add(NAMESPACE);
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', { vcpus: 1, memory_mib: 256 }, acme);
  const name = String(body.id).replace('_', '-');
  const pod = await phaseOf(fleet, name, 'Running');
  const [container] = pod.spec.containers;
  const resources = { ...container.resources, requests: { cpu: '1m', memory: '1Mi' } };
  fleet.api.objects.change('pods', pod, { spec: { containers: [{ ...container, resources }] } });
  await until(() => podOf(fleet, name) === undefined, 'no pod');
  t.equal(host.daemon.manager.list().length, 0);
  t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`, undefined, acme)).status, 404);
});

t.test('a label that is changed later ends the sandbox', async (t) => {
  const { fleet, host } = await start(t);
  await makePod(fleet, 'one');
  const pod = await phaseOf(fleet, 'one', 'Running');
  fleet.api.objects.change('pods', pod, { metadata: { labels: { 'sandboxd.dev/place': 'true' } } });
  t.match((await phaseOf(fleet, 'one', 'Failed')).status, { reason: 'NoPlaceLabel' });
  t.equal(host.daemon.manager.list().length, 0);
});

t.test('a pod that is deleted while it is refused goes', async (t) => {
  const fleet = await startFleet(t);
  const client = fleet.client();
  const [isPatched, isRead] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const slow = {
    stream: client.stream.bind(client),
    request: async (request: KubeRequest) => {
      const answer = await client.request(request);
      if (request.method !== 'PATCH' || !request.path.includes('/one/')) return answer;
      isPatched.resolve();
      await isRead.promise;
      return answer;
    },
  };
  const { made } = openPods(t, fleet, {}, slow as KubeClient);
  await makePod(fleet, 'one', { label: 'true' });
  await isPatched.promise;
  fleet.api.objects.delete('pods', NAMESPACE, 'one', 30);
  await makePod(fleet, 'two');
  await until(() => made.size === 1, 'a later event has arrived');
  isRead.resolve();
  await until(() => podOf(fleet, 'one') === undefined, 'it is gone');
});

t.test('a probe that answers in turn, and changes without end, cause no writes without end', async (t) => {
  const fleet = await startFleet(t);
  let probes = 0;
  openPods(t, fleet, { isReady: async () => probes++ % 2 === 0 });
  await makePod(fleet, 'one', { container: { readinessProbe: { tcpSocket: { port: 80 } } } });
  await phaseOf(fleet, 'one', 'Running');
  await until(() => probes >= 3, 'some probes');
  const before = fleet.api.requests.filter((each) => each === 'PATCH pods').length;
  const [first, since] = [probes, performance.now()];
  for (let n = 0; n < 200; n++) {
    fleet.api.objects.change('pods', podOf(fleet, 'one') as KubeObject, {
      metadata: { annotations: { n: String(n) } },
    });
    await sleep(2);
  }
  await until(() => probes >= first + 6, 'more probes');
  const most = (performance.now() - since) / 100 + 2;
  t.ok(probes - first <= most, `${probes - first} probes of at most ${most}`);
  t.equal(fleet.api.requests.filter((each) => each === 'PATCH pods').length, before);
});

t.test('pods of one namespace that take long keep none of another one waiting', async (t) => {
  const fleet = await startFleet(t);
  const isEvil = new Set<string>();
  const hang = (signal: AbortSignal) =>
    new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
    );
  const made = new Set<string>();
  openPods(t, fleet, {
    stateOf: (id) => (made.has(id) ? { state: 'running' } : undefined),
    delete: async (id) => void made.delete(id),
    create: async ({ id, tenant }, signal) => {
      made.add(id);
      if (tenant === 'evil') isEvil.add(id);
      if (tenant === 'evil') await hang(signal);
    },
    isReady: async (id, _, signal) => (isEvil.has(id) ? await hang(signal) : true),
    service: async (id, signal) =>
      isEvil.has(id) ? await hang(signal) : ({ state: 'running', restarts: 0 } as never),
  });
  for (let n = 0; n < 40; n++) await makePod(fleet, `e${n}`, { namespace: 'sandboxd-evil' });
  await until(() => isEvil.size >= 4, 'creates that take long');
  await makePod(fleet, 'good');
  await phaseOf(fleet, 'good', 'Running');
  t.equal(isEvil.size, 4);
  fleet.api.objects.delete('pods', NAMESPACE, 'good', 1);
  await until(() => podOf(fleet, 'good') === undefined, 'it is gone');
});

t.test('strangers who make large pods with our label stop no gateway', async (t) => {
  const { fleet, key } = await start(t);
  fleet.api.namespaces.add(NAMESPACE);
  for (let n = 0; n < 72; n++)
    fleet.api.objects.create('pods', 'strangers', {
      metadata: { name: `x${n}`, labels: { 'sandboxd.dev/place': 'x' } },
      spec: {
        ...{ schedulerName: 'none', nodeSelector: { no: 'node' } },
        containers: [{ name: 'c', resources: RESOURCES, env: [{ name: 'A', value: 'x'.repeat(2 ** 20) }] }],
      },
      status: {},
    } as never);
  const { url, map } = await fleet.gateway();
  await until(() => map.isCurrent, 'it follows the API server');
  t.equal((await ask(url, 'POST', '/sandboxes', {}, { authorization: `Bearer ${key}` })).status, 201);
});
