// What the fleet relies on in a control plane of Kubernetes. It runs against the stand-in, and with KUBE (a kubeconfig)
// against a real one: so the stand-in stays what it stands for.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { KubeClient } from '../../host-agent/src/fleet/index.ts';
import { isRefusal } from '../../host-agent/src/fleet/kube/client.ts';
import { ApiServer } from '../support/fleet/api-server.ts';
import { ask, Fleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';

const isReal = process.env.KUBE !== undefined;
const RUN = randomBytes(3).toString('hex');
const NAMESPACE = isReal ? `fleet-${RUN}` : 'sandboxd';
t.setTimeout(scaled(240_000));

type Listed = {
  items: {
    metadata: { name: string };
    status?: { phase?: string; conditions?: { type: string; status: string }[] };
  }[];
};

/** Asks until it holds. */
async function eventually(isTrue: () => Promise<boolean>, what: string): Promise<void> {
  for (const untilMs = performance.now() + scaled(30_000); !(await isTrue()); await sleep(50))
    if (performance.now() > untilMs) throw new Error(`timed out waiting for ${what}`);
}

async function list(client: KubeClient, path: string): Promise<Listed['items']> {
  return ((await client.request({ method: 'GET', path })) as Listed).items;
}

t.test('hosts, places and claims in a control plane', async (t) => {
  const api = isReal ? undefined : new ApiServer();
  await api?.listen();
  t.teardown(() => api?.stop());
  const fleet = new Fleet(t, api, NAMESPACE);
  const client = fleet.client();
  const pods = () => list(client, `/api/v1/namespaces/${NAMESPACE}/pods`);
  const metadata = { name: NAMESPACE };
  await client.request({
    method: 'POST',
    path: '/api/v1/namespaces',
    body: { apiVersion: 'v1', kind: 'Namespace', metadata },
  });
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
});
