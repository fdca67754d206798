// The controllers of kubernetes-sigs/agent-sandbox over hosts of a fleet: their pods become our sandboxes. It needs KUBE
// (a kubeconfig of a cluster that has their custom resources) and AGENT_SANDBOX (the program of their controllers).
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { KubeClient } from '../../host-agent/src/fleet/index.ts';
import { isRefusal } from '../../host-agent/src/fleet/kube/client.ts';
import { openKeyring } from '../http/keyed.ts';
import { ask, Fleet } from '../support/fleet/fleet.ts';
import { makeBootstrapToken, postManifests } from '../support/fleet/real-cluster.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

const { KUBE, AGENT_SANDBOX } = process.env;
const RUN = randomBytes(3).toString('hex');
const CLAIMS = 10;
t.setTimeout(scaled(300_000));

type CustomResource = {
  metadata: { name: string };
  status?: { conditions?: { type: string; status: string }[]; podIPs?: string[]; readyReplicas?: number };
};

async function eventually(isTrue: () => Promise<boolean>, what: string): Promise<void> {
  for (const untilMs = performance.now() + scaled(60_000); !(await isTrue()); await sleep(5))
    if (performance.now() > untilMs) throw new Error(`timed out waiting for ${what}`);
}

const isReady = ({ status }: CustomResource): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;

async function startControllers(t: Test, program: string, kubeconfig: string): Promise<ChildProcess> {
  const flags = ['--extensions', '--leader-elect=false', '--enable-webhook=false'];
  const addresses = ['--metrics-bind-address=0', '--health-probe-bind-address=0'];
  const child = spawn(program, [...flags, ...addresses, `--kubeconfig=${kubeconfig}`], { stdio: 'ignore' });
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    child.kill();
    await once(child, 'exit');
  });
  return child;
}

/** Resources of a namespace by name, as a watch of the test's own would be: it looks each 5 ms. */
function resourcesOf(client: KubeClient, namespace: string) {
  const at = (kind: string, name = ''): string => {
    const group = kind === 'sandboxes' ? 'agents.x-k8s.io' : 'extensions.agents.x-k8s.io';
    return `/apis/${group}/v1beta1/namespaces/${namespace}/${kind}${name === '' ? '' : `/${name}`}`;
  };
  const make = async (kind: string, name: string, spec: object): Promise<void> => {
    const names = { sandboxes: 'Sandbox', sandboxtemplates: 'SandboxTemplate' };
    const more = { sandboxwarmpools: 'SandboxWarmPool', sandboxclaims: 'SandboxClaim' };
    const path = at(kind);
    const apiVersion = path.split('/').slice(2, 4).join('/');
    const body = { apiVersion, kind: { ...names, ...more }[kind], metadata: { name }, spec };
    await client.request({ method: 'POST', path, body });
  };
  const get = async (kind: string, name: string): Promise<CustomResource | undefined> =>
    (await client.request({ method: 'GET', path: at(kind, name) }).catch((error: unknown) => {
      if (!isRefusal(error, 404)) throw error;
    })) as CustomResource | undefined;
  const ready = async (kind: string, name: string): Promise<CustomResource> => {
    for (const untilMs = performance.now() + scaled(60_000); ; await sleep(5)) {
      const found = await get(kind, name);
      if (found !== undefined && isReady(found)) return found;
      if (performance.now() > untilMs) throw new Error(`${kind} ${name}: ${JSON.stringify(found?.status)}`);
    }
  };
  const remove = (kind: string, name: string) => client.request({ method: 'DELETE', path: at(kind, name) });
  const patch = (kind: string, name: string, spec: object) =>
    client.request({ method: 'PATCH', path: at(kind, name), patch: 'merge', body: { spec } });
  return { make, get, ready, remove, patch };
}

t.test('sandboxes, warm pools and claims of agent-sandbox', async (t) => {
  const fleet = new Fleet(t, undefined, `fleet-${RUN}`);
  const client = fleet.client();
  const namespace = `fleet-${RUN}-acme`;
  for (const name of [`fleet-${RUN}`, namespace]) {
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
    await client.request({ method: 'POST', path: '/api/v1/namespaces', body });
    const path = `/api/v1/namespaces/${name}`;
    t.teardown(() => client.request({ method: 'DELETE', path }).catch(() => undefined));
  }
  await postManifests(client, '{hosts,runtimeclass,pod-label}.yaml');
  const keyring = await openKeyring(t);
  await keyring.make({ name: 'pods-acme', tenant: 'acme' });
  const acme = { authorization: `Bearer ${await keyring.make({ tenant: 'acme' })}` };
  const { registry: keys, authenticator } = keyring;
  const name = `agents-${RUN}`;
  t.teardown(() =>
    client.request({ method: 'DELETE', path: `/api/v1/nodes/${name}` }).catch(() => undefined),
  );
  const host = await fleet.host(name, {
    ...{ authenticator, bootstrapToken: await makeBootstrapToken(t, client) },
    pods: { key: 'pods', keys, range: '10.244.7.0/24' },
  });
  await host.agent.joined();
  const { url } = await fleet.gateway();
  await startControllers(t, AGENT_SANDBOX ?? '', KUBE ?? '');

  const { make, get, ready, remove, patch } = resourcesOf(client, namespace);
  const data = { key: Buffer.from('hidden').toString('base64') };
  await client.request({
    ...{ method: 'POST', path: `/api/v1/namespaces/${namespace}/secrets` },
    body: { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'keys' }, data },
  });
  const podTemplate = {
    metadata: { labels: { app: 'agent' } },
    spec: {
      runtimeClassName: 'sandboxd',
      // Only the host of this test.
      nodeSelector: { 'kubernetes.io/hostname': name },
      containers: [
        {
          ...{ name: 'agent', image: 'sandboxd.dev/profile/base', command: ['sleep', 'infinity'] },
          env: [{ name: 'TOKEN', valueFrom: { secretKeyRef: { name: 'keys', key: 'key' } } }],
          ports: [{ containerPort: 8888 }],
          resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { cpu: '1', memory: '128Mi' } },
        },
      ],
    },
  };
  const idsOf = async () =>
    ((await ask(url, 'GET', '/sandboxes', undefined, acme)).body.sandboxes as { id: string }[]).map(
      ({ id }) => id,
    );

  const coldMs: number[] = [];
  for (let n = 0; n < CLAIMS; n++) {
    const startedAt = performance.now();
    await make('sandboxes', `cold-${n}`, { podTemplate });
    await ready('sandboxes', `cold-${n}`);
    coldMs.push(performance.now() - startedAt);
  }
  const ids = await idsOf();
  t.equal(ids.length, CLAIMS);
  const shown = await ask(url, 'GET', `/sandboxes/${ids[0]}`, undefined, acme);
  t.match(shown, { status: 200, body: { labels: { app: 'agent' }, env_names: ['TOKEN'] } });
  await patch('sandboxes', 'cold-0', { operatingMode: 'Suspended' });
  await eventually(async () => (await idsOf()).length === CLAIMS - 1, 'one is suspended: its sandbox ends');
  await patch('sandboxes', 'cold-0', { operatingMode: 'Running' });
  await eventually(async () => (await idsOf()).length === CLAIMS, 'another sandbox');
  await ready('sandboxes', 'cold-0');

  await make('sandboxtemplates', 'agent', { podTemplate });
  await make('sandboxwarmpools', 'pool', { replicas: 5, sandboxTemplateRef: { name: 'agent' } });
  const isFull = async () => (await get('sandboxwarmpools', 'pool'))?.status?.readyReplicas === 5;
  await eventually(isFull, 'a full pool');
  const claimMs: number[] = [];
  for (let n = 0; n < CLAIMS; n++) {
    await eventually(isFull, 'a full pool again');
    const startedAt = performance.now();
    await make('sandboxclaims', `claim-${n}`, { warmPoolRef: { name: 'pool' } });
    await ready('sandboxclaims', `claim-${n}`);
    claimMs.push(performance.now() - startedAt);
  }
  const median = (times: number[]) => Math.round(times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0);
  t.comment(
    `cold Sandbox → Ready ${median(coldMs)} ms, claim → Ready ${median(claimMs)} ms (medians of ${CLAIMS})`,
  );
  t.comment(`cold ${coldMs.map(Math.round).join(' ')}; claims ${claimMs.map(Math.round).join(' ')}`);
  await remove('sandboxwarmpools', 'pool');
  for (let n = 0; n < CLAIMS; n++) {
    await remove('sandboxes', `cold-${n}`);
    await remove('sandboxclaims', `claim-${n}`);
  }
  await until(() => host.daemon.manager.list().length === 0, 'no sandbox', scaled(120_000));
  await until(() => host.podRecords.all().length === 0, 'no record');
});
