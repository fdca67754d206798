// What the fleet relies on in a control plane of Kubernetes. It runs against the stand-in, and with KUBE (a kubeconfig)
// against a real one: so the stand-in stays what it stands for.
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID, X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { FleetKeys } from '../../host-agent/src/fleet/index.ts';
import { isOtherObject, isRefusal } from '../../host-agent/src/fleet/kube/client.ts';
import { toKeyObjectName } from '../../host-agent/src/fleet/kubernetes/key-objects.ts';
import { newId } from '../../host-agent/src/lib/ids.ts';
import { ApiServer } from '../support/fleet/api-server.ts';
import { eventually, type Listed, list } from '../support/fleet/cluster.ts';
import { ask, Fleet } from '../support/fleet/fleet.ts';
import {
  checkManifests,
  makeBootstrapToken,
  post,
  postManifests,
  readManifests,
} from '../support/fleet/real-cluster.ts';
import { Signer } from '../support/fleet/signer.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { openKeyring } from './keyed.ts';

const { KUBE = '', KUBECTL } = process.env;
const isReal = KUBE !== '';
const KUBECTL_DRAIN = ['--kubeconfig', KUBE, 'drain', '--force', '--timeout=180s'];
const RUN = randomBytes(3).toString('hex');
const NAMESPACE = isReal ? `fleet-${RUN}` : 'sandboxd';
t.setTimeout(scaled(240_000));

t.test('hosts, places and claims in a control plane', async (t) => {
  const api = isReal ? undefined : new ApiServer();
  await api?.listen();
  t.teardown(() => api?.stop());
  const fleet = new Fleet(t, api, NAMESPACE);
  const client = fleet.client();
  const pods = () => list(client, `/api/v1/namespaces/${NAMESPACE}/pods`);
  await post(client, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } });
  const names = ['a', 'b', 'c'].map((name) => `${name}-${RUN}`);
  t.teardown(async () => {
    for (const name of names)
      await client.request({ method: 'DELETE', path: `/api/v1/nodes/${name}` }).catch(() => undefined);
    if (isReal)
      await client
        .request({ method: 'DELETE', path: `/api/v1/namespaces/${NAMESPACE}` })
        .catch(() => undefined);
  });
  const startedAt = performance.now();
  const hosts = await Promise.all(names.map((name) => fleet.host(name)));
  const isReady = (node: Listed['items'][number]) =>
    node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
  await eventually(
    async () => (await list(client, '/api/v1/nodes')).filter(isReady).length >= 3,
    'ready nodes',
  );
  t.comment(`three ready nodes after ${Math.round(performance.now() - startedAt)} ms`);
  const [first, second] = [await fleet.gateway(), await fleet.gateway()];
  // The controllers make the service account of a new namespace, without which no pod is accepted.
  await eventually(async () => {
    const made = await ask(first.url, 'POST', '/sandboxes', {});
    if (made.status !== 201) t.comment(JSON.stringify(made.body));
    return (
      made.status === 201 && (await ask(first.url, 'DELETE', `/sandboxes/${made.body.id}`)).status === 204
    );
  }, 'a first sandbox');

  const took: number[] = [];
  const ids: string[] = [];
  for (let n = 0; n < 12; n++) {
    const at = performance.now();
    const made = await ask(first.url, 'POST', '/sandboxes', {});
    t.equal(made.status, 201, JSON.stringify(made.body));
    took.push(performance.now() - at);
    ids.push(made.body.id);
  }
  took.sort((a, b) => a - b);
  t.comment(`creates: p50 ${took[6]?.toFixed(1)} ms, most ${took.at(-1)?.toFixed(1)} ms`);
  for (const { daemon } of hosts) t.ok(daemon.manager.list().length >= 2, 'spread');
  await eventually(
    async () => (await pods()).filter(({ status }) => status?.phase === 'Running').length === 12,
    'running pods',
  );

  const [gone = '', deleted = '', kept = ''] = ids;
  const podPath = `/api/v1/namespaces/${NAMESPACE}/pods/${gone.replace('_', '-')}`;
  await client.request({ method: 'DELETE', path: podPath });
  t.equal((await ask(second.url, 'DELETE', `/sandboxes/${deleted}`)).status, 204);
  await eventually(async () => (await pods()).length === 10, 'pods without those two');
  t.equal(hosts.flatMap(({ daemon }) => daemon.manager.list()).length, 10);
  t.equal((await ask(second.url, 'GET', `/sandboxes/${kept}`)).status, 200);

  const forks = await ask(first.url, 'POST', `/sandboxes/${kept}/fork`, { count: 3 });
  t.equal(forks.status, 201, JSON.stringify(forks.body));
  const key = { 'idempotency-key': RUN };
  const same = await Promise.all(
    [first, second, first, second].map(({ url }) => ask(url, 'POST', '/sandboxes', { name: 'only' }, key)),
  );
  t.same(
    same.map(({ status }) => status),
    [201, 201, 201, 201],
    JSON.stringify(same.map(({ body }) => body.error)),
  );
  t.equal(new Set(same.map(({ body }) => body.id)).size, 1);
  t.match(await ask(second.url, 'POST', '/sandboxes', { name: 'only' }), { status: 409 });
  await eventually(async () => (await pods()).length === 14, 'fourteen pods');

  const quota = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'few' },
    spec: { hard: { pods: '20' } },
  };
  await client.request({
    method: 'POST',
    path: `/api/v1/namespaces/${NAMESPACE}/resourcequotas`,
    body: quota,
  });
  await sleep(isReal ? 3000 : 0);
  const many = await Promise.all(Array.from({ length: 12 }, () => ask(first.url, 'POST', '/sandboxes', {})));
  t.same(many.map(({ status }) => status).sort(), [...Array(6).fill(201), ...Array(6).fill(403)]);

  const twin = { apiVersion: 'v1', kind: 'Node', metadata: { name: names[0] } };
  const refused = client.request({ method: 'POST', path: '/api/v1/nodes', body: twin });
  t.ok(isRefusal(await refused.catch((error: unknown) => error), 409));
  t.match(await ask(first.url, 'DELETE', '/sandboxes?state=running'), { status: 200 });
  await eventually(async () => (await pods()).length === 0, 'no pods');

  const { signal } = new AbortController();
  const wanted = { id: newId('sbx'), vcpus: 1, memoryMib: 512, tenant: undefined, claims: [] };
  const place = await first.catalogue.place(wanted, signal);
  await second.catalogue.join(place, signal);
  await first.catalogue.forget(place, { unlessJoined: true });
  t.equal((await pods()).length, 1, 'another request uses it');
  await first.catalogue.forget(place);
  await eventually(async () => (await pods()).length === 0, 'no pod');
  await t.rejects(second.catalogue.join(place, signal), { code: 'exhausted' });
});

t.test('a host with an identity of its own may change what is its own', async (t) => {
  const api = isReal ? undefined : new ApiServer(new Signer(t));
  await api?.listen();
  t.teardown(() => api?.stop());
  const namespace = isReal ? `${NAMESPACE}-own` : 'sandboxd';
  const fleet = new Fleet(t, api, namespace);
  const client = fleet.client();
  await post(client, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  const paths = [
    `/api/v1/namespaces/${namespace}`,
    ...['a', 'b'].map((name) => `/api/v1/nodes/${name}-own-${RUN}`),
  ];
  if (isReal) await postManifests(client, 'hosts.yaml');
  if (isReal)
    for (const body of readManifests('rbac.yaml'))
      if (body.metadata.name === 'sandboxd-keys')
        await post(client, { ...body, metadata: { ...body.metadata, namespace } });
  const { registry } = await openKeyring(t);
  const token = isReal ? await makeBootstrapToken(t, client) : '0a1b2c.0123456789abcdef';
  api?.bootstrapTokens.add(token);
  t.teardown(async () => {
    for (const path of isReal ? paths : [])
      await client.request({ method: 'DELETE', path }).catch(() => undefined);
  });
  let aheadMs = 0;
  const now = () => Date.now() + aheadMs;
  const startedAt = performance.now();
  const [one, two] = await Promise.all(
    ['a', 'b'].map((name) =>
      fleet.host(`${name}-own-${RUN}`, {
        bootstrapToken: token,
        unusedMs: 2000,
        now,
        ...(name === 'a' && { sharedKeys: registry }),
      }),
    ),
  );
  await Promise.all([one!.agent.joined(), two!.agent.joined()]);
  t.comment(`two hosts with certificates after ${Math.round(performance.now() - startedAt)} ms`);
  const { url, catalogue, map } = await fleet.gateway();
  await eventually(async () => map.hosts().filter(({ isReady }) => isReady).length >= 2, 'ready hosts');
  const pods = () => list(client, `/api/v1/namespaces/${namespace}/pods`);
  const ids: string[] = [];
  await eventually(async () => {
    const made = await ask(url, 'POST', '/sandboxes', {});
    if (made.status === 201) ids.push(made.body.id);
    else t.comment(JSON.stringify(made.body));
    return ids.length === 4;
  }, 'four sandboxes');
  await eventually(
    async () => (await pods()).filter(({ status }) => status?.phase === 'Running').length === 4,
    'running pods',
  );
  const [deleted = '', gone = '', kept = ''] = ids;
  const pathOf = (id: string) => `/api/v1/namespaces/${namespace}/pods/${id.replace('_', '-')}`;
  await client.request({ method: 'DELETE', path: pathOf(gone) });
  t.equal((await ask(url, 'DELETE', `/sandboxes/${deleted}`)).status, 204);
  const asked = { id: 'sbx_0123456789abc', tenant: undefined, vcpus: 1, memoryMib: 128, claims: [] };
  await catalogue.place(asked, new AbortController().signal);
  await eventually(async () => (await pods()).length === 2, 'two pods');

  const keys = new FleetKeys({ client, seal: fleet.seal, namespace });
  const { text: key } = await keys.create({ name: 'ci' });
  await t.rejects(keys.create({ name: 'ci' }), { code: 'conflict' });
  await eventually(async () => registry.find(key).state === 'valid', 'a key of the fleet');
  await keys.revoke('ci');
  await eventually(async () => registry.find(key).state === 'revoked', 'its end');
  const { key: again } = await keys.create({ name: 'ci' });
  t.match(await keys.list(), [{ id: again.id }]);
  const configMaps = `/api/v1/namespaces/${namespace}/configmaps`;

  const former = [one!, two!].map(({ identity }) => identity!.current().cert);
  aheadMs = new X509Certificate(former[0]!).validToDate.getTime() - Date.now() - 60_000;
  const isRenewed = () => [one!, two!].every(({ identity }, n) => identity!.current().cert !== former[n]);
  await eventually(async () => isRenewed(), 'renewed certificates');
  aheadMs = 0;

  const [own, other] = one!.daemon.manager.find(kept) === undefined ? [two!, one!] : [one!, two!];
  const ownNode = `/api/v1/nodes/${own.name}`;
  const status = { status: { phase: 'Failed' } };
  const lease = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
  const labels = { 'node-restriction.kubernetes.io/a': 'b' };
  const clusterPod = { metadata: { name: 'x' }, spec: { containers: [{ name: 'x', image: 'x' }] } };
  for (const [what, host, method, path, body] of [
    ['status of another’s pod', other, 'PATCH', `${pathOf(kept)}/status`, status],
    ['another’s pod', other, 'DELETE', pathOf(kept), undefined],
    ['another’s Node', other, 'PATCH', ownNode, { metadata: { labels: { a: 'b' } } }],
    ['status of another’s Node', other, 'PATCH', `${ownNode}/status`, status],
    ['another’s Lease', other, 'PATCH', `${lease}/${own.name}`, { spec: { holderIdentity: 'x' } }],
    ['its pod, beside the status', own, 'PATCH', pathOf(kept), { metadata: { finalizers: null } }],
    ['whether another is cordoned', other, 'PATCH', ownNode, { spec: { unschedulable: true } }],
    ['its Node’s taints', own, 'PATCH', ownNode, { spec: { taints: [] } }],
    ['reserved labels', own, 'PATCH', ownNode, { metadata: { labels } }],
    ['another Node', own, 'POST', '/api/v1/nodes', { metadata: { name: `c-own-${RUN}` } }],
    ['a pod', own, 'POST', `/api/v1/namespaces/${namespace}/pods`, clusterPod],
    ['all pods', own, 'GET', '/api/v1/pods', undefined],
    ['a key', own, 'POST', configMaps, { metadata: { name: 'x' } }],
    ['another key', own, 'PATCH', `${configMaps}/${toKeyObjectName('ci')}`, { data: { key: '{}' } }],
    ['keys of elsewhere', own, 'GET', '/api/v1/namespaces/kube-system/configmaps', undefined],
  ] as const) {
    const patch = method === 'PATCH' ? ({ patch: 'merge' } as const) : {};
    const request = { method, path, ...(body && { body }), ...patch };
    const error = await host.client.request(request).catch((refused: unknown) => refused);
    t.ok(isRefusal(error, 403), `${what}: ${String(error)}`);
  }
  const patch = { method: 'PATCH', path: ownNode, patch: 'merge' } as const;
  for (const unschedulable of [true, null]) {
    const node = await own.client.request({ ...patch, body: { spec: { unschedulable } } });
    t.match(node, { spec: { unschedulable: unschedulable ?? undefined } }, 'it is cordoned by itself');
  }
  for (const [path, change] of [
    [ownNode, { spec: { unschedulable: true } }],
    [`${pathOf(kept)}/status`, status],
  ] as const) {
    const body = { metadata: { uid: randomUUID() }, ...change };
    const stale = await own.client.request({ ...patch, path, body }).catch((refused: unknown) => refused);
    t.ok(isOtherObject(stale), `${path}: one of that name that is another`);
  }
  const all = { method: 'GET', path: `/api/v1/namespaces/${namespace}/pods` } as const;
  const listed = async (host: typeof own, node: string): Promise<unknown> => {
    const fieldSelector = `spec.nodeName=${node},metadata.name=${kept.replace('_', '-')}`;
    return await host.client
      .request({ ...all, query: { fieldSelector } })
      .catch((refused: unknown) => refused);
  };
  t.match(await listed(own, own.name), { items: [{ metadata: { namespace } }] }, 'one of its own pods');
  t.ok(isRefusal(await listed(other, own.name), 403), 'a pod of another');
  t.equal((await ask(url, 'GET', `/sandboxes/${kept}`)).status, 200);
  t.match(await ask(url, 'DELETE', '/sandboxes?state=running'), { status: 200 });
  await eventually(async () => (await pods()).length === 0, 'no pods');
});

// A stand-in has no schemas.
if (isReal)
  t.test('a real API server accepts the manifests', (t) =>
    checkManifests(t, new Fleet(t, undefined).client()),
  );

t.test('sandboxes of a cordoned node move; an eviction waits for that', async (t) => {
  const api = isReal ? undefined : new ApiServer();
  await api?.listen();
  t.teardown(() => api?.stop());
  const namespace = isReal ? `fleet-moves-${RUN}` : 'sandboxd';
  const fleet = new Fleet(t, api, namespace);
  const client = fleet.client();
  await post(client, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  const settings = makeStoreSettings(t, process.env.S3 ?? (await startS3(t)).url);
  const names = ['d', 'e'].map((name) => `${name}-${RUN}`);
  const paths = [...names.map((name) => `/api/v1/nodes/${name}`), `/api/v1/namespaces/${namespace}`];
  t.teardown(async () => {
    for (const path of isReal ? paths : [])
      await client.request({ method: 'DELETE', path }).catch(() => undefined);
  });
  const [from, to] = await Promise.all(
    names.map((name) => fleet.host(name, { snapshotStore: openTestStore(t, settings).store })),
  );
  const { url } = await fleet.gateway({ sweepMs: 300 });
  const ids: string[] = [];
  await eventually(async () => {
    const { status, body } = await ask(url, 'POST', '/sandboxes', {});
    if (status === 201) ids.push(body.id);
    return (from?.daemon.manager.list().length ?? 0) > 1;
  }, 'sandboxes on the first host');
  const pods = () => list(client, `/api/v1/namespaces/${namespace}/pods`);
  if (isReal) {
    const [budget] = readManifests('disruption-budget.yaml');
    if (budget === undefined) throw new Error('no budget');
    await post(client, { ...budget, metadata: { ...budget.metadata, namespace } });
    const evict = async (): Promise<number> => {
      // Kubernetes evicts others at once.
      const pod = (await pods()).find(({ status }) => status?.phase === 'Running');
      if (pod === undefined) return 0;
      const path = `/api/v1/namespaces/${namespace}/pods/${pod.metadata.name}/eviction`;
      const body = {
        apiVersion: 'policy/v1',
        kind: 'Eviction',
        metadata: { name: pod.metadata.name, namespace },
      };
      const done = client.request({ method: 'POST', path, body, query: { dryRun: 'All' } });
      return await done.then(
        () => 201,
        (error: unknown) => (isRefusal(error, 429) ? 429 : 0),
      );
    };
    await eventually(async () => (await evict()) === 429, 'refused evictions');
  }
  const cordon = { path: `/api/v1/nodes/${names[0]}`, body: { spec: { unschedulable: true } } };
  if (isReal && KUBECTL !== undefined)
    // It ends when no pod is there any more, and evicts those that the budget does not count.
    t.match(await promisify(execFile)(KUBECTL, [...KUBECTL_DRAIN, `${names[0]}`]), { stdout: / drained\n$/ });
  else await client.request({ method: 'PATCH', patch: 'merge', ...cordon });
  await eventually(
    async () => to?.daemon.manager.list().length === ids.length && (await pods()).length === ids.length,
    'all at the other host, with one pod each',
  );
  t.same(from?.daemon.manager.list(), []);
  const answers = new Set<unknown>();
  const remove = async (id: string): Promise<boolean> => {
    const { status, body } = await ask(url, 'DELETE', `/sandboxes/${id}`);
    answers.add(status === 503 ? String(body.error).replaceAll(id, 'it') : status);
    return status === 204;
  };
  // Until its place says so, one that has come is answered as one that moves.
  for (const id of ids) await eventually(() => remove(id), `the end of ${id}`);
  for (const each of answers)
    t.ok(each === 204 || /it moves to another host/.test(String(each)), String(each));
  await eventually(async () => (await pods()).length === 0, 'no pod');
});
