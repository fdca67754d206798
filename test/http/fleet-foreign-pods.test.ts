// Pods that no gateway made: each becomes a sandbox with the rights of a key, and its status follows it.
import type { Policy } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { ask, type Fleet, type FleetHost, type HostOptions, startFleet } from '../support/fleet/fleet.ts';
import type { KubeObject } from '../support/fleet/objects.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { type Keyring, openKeyring } from './keyed.ts';

t.setTimeout(scaled(240_000));

const LABELS = { 'sandboxd.dev/place': 'pod', app: 'agent' };
const RESOURCES = { requests: { cpu: '200m', memory: '256Mi' }, limits: { cpu: '2', memory: '256Mi' } };

type PodParts = {
  readonly spec?: object;
  readonly container?: object;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
};

function toPod(name: string, { spec, container, labels = LABELS, annotations = {} }: PodParts = {}): object {
  return {
    metadata: { name, labels, annotations },
    spec: {
      runtimeClassName: 'sandboxd',
      containers: [{ name: 'main', image: 'sandboxd.dev/profile/base', resources: RESOURCES, ...container }],
      ...spec,
    },
  };
}

async function makePod(fleet: Fleet, name: string, wanted: PodParts = {}, namespace = 'sandboxd-acme') {
  fleet.api.namespaces.add(namespace);
  const path = `/api/v1/namespaces/${namespace}/pods`;
  await fleet.client().request({ method: 'POST', path, body: toPod(name, wanted) });
}

function podOf(fleet: Fleet, name: string, namespace = 'sandboxd-acme'): KubeObject | undefined {
  return fleet.api.objects.find('pods', namespace, name);
}

async function phaseOf(fleet: Fleet, name: string, phase: string, namespace?: string): Promise<KubeObject> {
  await until(() => podOf(fleet, name, namespace)?.status?.phase === phase, `${name} is ${phase}`);
  return podOf(fleet, name, namespace) as KubeObject;
}

function isReady(pod: KubeObject | undefined): boolean {
  return pod?.status?.conditions?.some(
    (each: { type: string; status: string }) => each.type === 'Ready' && each.status === 'True',
  );
}

/** Of the first service. */
function envOf({ daemon }: FleetHost): Record<string, string> {
  const [service] = daemon.host.running.flatMap(({ agent }) => agent.services);
  return Object.fromEntries(
    [...(service?.baseEnv ?? []), ...(service?.env ?? [])].map((each) => each.split('=')),
  );
}

async function start(
  t: Test,
  options: HostOptions = {},
  policy?: Policy,
): Promise<{ fleet: Fleet; host: FleetHost; keyring: Keyring }> {
  const keyring = await openKeyring(t);
  await keyring.make({ name: 'pods-acme', tenant: 'acme', ...(policy && { policy }) });
  const fleet = await startFleet(t);
  const pods = { key: 'pods', keys: keyring.registry };
  const { authenticator } = keyring;
  const host = await fleet.host('h0', { pods, authenticator, ...options });
  await fleet.ready(1);
  return { fleet, host, keyring };
}

t.test('a pod becomes a sandbox of its tenant, which clients find at a gateway', async (t) => {
  const keyring = await openKeyring(t);
  const pods = { key: 'pods', keys: keyring.registry, range: '10.244.7.0/24' };
  const { fleet, host } = await start(t, { pods, authenticator: keyring.authenticator });
  await keyring.make({ name: 'pods-acme', tenant: 'acme' });
  const acme = { authorization: `Bearer ${await keyring.make({ tenant: 'acme' })}` };
  const other = { authorization: `Bearer ${await keyring.make({ tenant: 'other' })}` };
  const { url } = await fleet.gateway();
  await makePod(fleet, 'one', {
    container: {
      command: ['sh', '-c', 'echo $(NAME) $(NONE) $$(NAME)'],
      env: [
        { name: 'NAME', value: 'n' },
        { name: 'BOTH', value: '$(NAME)-2' },
        { name: 'POD', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
      ],
      ports: [{ containerPort: 8080 }],
    },
    spec: { activeDeadlineSeconds: 600 },
  });
  await until(() => isReady(podOf(fleet, 'one')), 'a ready pod');
  const pod = await phaseOf(fleet, 'one', 'Running');
  const id = pod.metadata.annotations?.['sandboxd.dev/id'] ?? '';
  const { status } = pod;
  t.match(status, {
    hostIP: '127.0.0.1',
    podIP: /^10\.244\.7\.\d+$/,
    podIPs: [{ ip: status.podIP }],
    containerStatuses: [{ name: 'main', ready: true, containerID: `sandboxd://${id}`, restartCount: 0 }],
  });
  const { body } = await ask(url, 'GET', `/sandboxes/${id}`, undefined, acme);
  t.match(body, {
    ...{ id, vcpus: 2, memory_mib: 256, profile: 'base', timeout_s: 600 },
    labels: { app: 'agent', 'sandboxd.dev/pod': 'one' },
    env_names: ['NAME', 'BOTH', 'POD'],
    published: [{ host_ip: status.podIP, host_port: 8080, guest_port: 8080 }],
  });
  const [machine] = host.daemon.host.running;
  t.same(machine?.agent.services[0]?.cmd, ['sh', '-c', 'echo n $(NONE) $(NAME)']);
  t.match(envOf(host), { BOTH: 'n-2', POD: 'one' });
  const list = await ask(url, 'GET', '/sandboxes', undefined, acme);
  t.same(
    (list.body.sandboxes as { id: string }[]).map((each) => each.id),
    [id],
  );
  t.equal((await ask(url, 'GET', `/sandboxes/${id}`, undefined, other)).status, 404);
  t.match((await ask(url, 'GET', `/sandboxes/${id}/service`, undefined, acme)).body, { state: 'running' });

  await ask(url, 'POST', `/sandboxes/${id}/pause`, {}, acme);
  await until(() => podOf(fleet, 'one')?.status.containerStatuses[0].ready === false, 'not ready');
  await ask(url, 'POST', `/sandboxes/${id}/resume`, {}, acme);
  await until(() => isReady(podOf(fleet, 'one')), 'ready again');

  fleet.api.objects.delete('pods', 'sandboxd-acme', 'one', 2);
  await until(() => podOf(fleet, 'one') === undefined, 'no pod', scaled(60_000));
  t.equal(host.daemon.manager.list().length, 0);
  await until(() => host.podRecords.all().length === 0, 'no record');
  t.equal((await ask(url, 'GET', `/sandboxes/${id}`, undefined, acme)).status, 404);
});

t.test('what a sandbox cannot be is refused, and says why', async (t) => {
  const { fleet, host } = await start(t);
  const secret = { name: 'S', valueFrom: { fileKeyRef: { path: '/etc/shadow' } } };
  const refused: Record<string, [PodParts, RegExp]> = {
    path: [{ spec: { volumes: [{ name: 'v', hostPath: { path: '/' } }] } }, /volumes/],
    claim: [{ spec: { volumes: [{ name: 'kube-api-access-x', hostPath: { path: '/' } }] } }, /hostPath/],
    network: [{ spec: { hostNetwork: true } }, /hostNetwork/],
    pid: [{ spec: { hostPID: true } }, /hostPID/],
    init: [{ spec: { initContainers: [{ name: 'i', image: 'x' }] } }, /initContainers/],
    privileged: [{ container: { securityContext: { privileged: true } } }, /privileged/],
    root: [{ container: { securityContext: { runAsNonRoot: true } } }, /runAsNonRoot/],
    mount: [{ container: { volumeMounts: [{ name: 'v', mountPath: '/' }] } }, /volumeMounts/],
    host: [{ container: { ports: [{ containerPort: 80, hostPort: 80 }] } }, /hostPort/],
    args: [{ container: { args: ['x'] } }, /args without a command/],
    file: [{ container: { env: [secret] } }, /fileKeyRef/],
    field: [
      { container: { env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }] } },
      /fieldRef/,
    ],
    memory: [
      { container: { resources: { requests: { cpu: '1', memory: '16Mi' }, limits: { memory: '4Gi' } } } },
      /must be the same/,
    ],
    cpu: [
      { container: { resources: { requests: { cpu: '1m', memory: '128Mi' }, limits: { cpu: '4' } } } },
      /requests\.cpu/,
    ],
    large: [{ container: { resources: { requests: { cpu: '9', memory: '128Mi' } } } }, /vcpus/],
    profile: [{ container: { image: 'sandboxd.dev/profile/none' } }, /none/],
    image: [{ container: { image: 'nginx' } }, /images/],
    unlabelled: [{ labels: {} }, /sandboxd\.dev\/place/],
  };
  for (const [name, [wanted]] of Object.entries(refused)) await makePod(fleet, name, wanted);
  fleet.api.objects.create('pods', 'sandboxd-acme', {
    metadata: { name: 'two' },
    spec: {
      ...{ runtimeClassName: 'sandboxd', nodeName: 'h0' },
      containers: [1, 2].map((n) => ({ name: `c${n}`, image: 'x', resources: RESOURCES })),
    },
  } as KubeObject);
  for (const [name, [, why]] of [...Object.entries(refused), ['two', [{}, /sidecars/]] as const]) {
    const { status } = await phaseOf(fleet, name, 'Failed');
    t.match(status.message, why, name);
    t.match(status.containerStatuses[0].state, { terminated: { exitCode: 128 } });
  }
  t.equal(host.daemon.manager.list().length, 0);
  t.same(host.podRecords.all(), []);
  // A pod without our class is no one's business here.
  fleet.api.objects.create('pods', 'sandboxd-acme', {
    metadata: { name: 'log-shipper' },
    spec: { nodeName: 'h0', containers: [{ name: 'c', image: 'x', resources: RESOURCES }] },
  } as KubeObject);
  await makePod(fleet, 'after');
  await phaseOf(fleet, 'after', 'Running');
  t.equal(podOf(fleet, 'log-shipper')?.status, undefined);
});

t.test('without a key of the tenant nothing runs, and its policy and quota hold', async (t) => {
  const policy: Policy = { operations: ['create'], max_memory_mib: 512, net_allow_max: ['pypi.org'] };
  const { fleet, host, keyring } = await start(t, {}, policy);
  await keyring.make({ name: 'pods-other', tenant: 'acme' });
  for (const namespace of ['sandboxd', 'sandboxd-other', 'default', 'sandboxd-', 'sandboxdacme']) {
    await makePod(fleet, 'p', {}, namespace);
    const { status } = await phaseOf(fleet, 'p', 'Failed', namespace);
    t.equal(status.reason, 'Forbidden', namespace);
  }
  const forbidden: Record<string, [PodParts, RegExp]> = {
    exec: [{ container: { command: ['x'] } }, /a service needs exec/],
    memory: [{ container: { resources: { requests: { cpu: '1', memory: '1Gi' } } } }, /max_memory_mib/],
    hosts: [{ annotations: { 'sandboxd.dev/allow-hosts': 'pypi.org, example.com' } }, /net_allow_max/],
    preset: [{ annotations: { 'sandboxd.dev/network-presets': 'internet' } }, /internet/],
  };
  for (const [name, [wanted, why]] of Object.entries(forbidden)) {
    await makePod(fleet, name, wanted);
    t.match((await phaseOf(fleet, name, 'Failed')).status.message, why, name);
  }
  await makePod(fleet, 'allowed', { annotations: { 'sandboxd.dev/allow-hosts': 'pypi.org' } });
  await phaseOf(fleet, 'allowed', 'Running');
  const [made] = host.daemon.manager.list();
  t.same(made?.network?.allowlist, ['pypi.org']);
  await keyring.registry.revoke('pods-acme');
  await makePod(fleet, 'later');
  t.match((await phaseOf(fleet, 'later', 'Failed')).status, { reason: 'Forbidden' });
  t.equal(podOf(fleet, 'allowed')?.status.phase, 'Running', 'which runs, goes on');
});

t.test('secrets and config maps are those of its own namespace', async (t) => {
  const { fleet, host } = await start(t);
  const put = (resource: string, namespace: string, name: string, data: Record<string, string>) =>
    fleet.api.objects.create(resource, namespace, { metadata: { name }, data } as KubeObject);
  fleet.api.namespaces.add('sandboxd-other');
  put('secrets', 'sandboxd-other', 'theirs', { key: Buffer.from('x').toString('base64') });
  const from = (kind: string, name: string, optional = false) => ({
    valueFrom: { [kind]: { name, key: 'key', optional } },
  });
  const waits = (name: string) =>
    until(() => podOf(fleet, name)?.status?.containerStatuses?.[0].state.waiting !== undefined, 'waits');
  await makePod(fleet, 'foreign', { container: { env: [{ name: 'A', ...from('secretKeyRef', 'theirs') }] } });
  await makePod(fleet, 'dots', {
    container: { env: [{ name: 'A', ...from('secretKeyRef', '../../sandboxd-other/secrets/theirs') }] },
  });
  await makePod(fleet, 'late', {
    container: {
      env: [
        { name: 'A', ...from('secretKeyRef', 'mine') },
        { name: 'B', ...from('configMapKeyRef', 'mine') },
        { name: 'C', ...from('configMapKeyRef', 'none', true) },
      ],
      command: ['x'],
    },
  });
  await waits('foreign');
  await waits('dots');
  await waits('late');
  t.equal(host.daemon.manager.list().length, 0);
  put('secrets', 'sandboxd-acme', 'mine', { key: Buffer.from('hidden').toString('base64') });
  put('configmaps', 'sandboxd-acme', 'mine', { key: 'shown' });
  await phaseOf(fleet, 'late', 'Running');
  t.match(envOf(host), { A: 'hidden', B: 'shown' });
  t.notOk('C' in envOf(host));
  t.notMatch(JSON.stringify(fleet.api.objects.list('pods')), /hidden|aGlkZGVu/, 'no value in the cluster');
});

t.test('a restart of the daemon adopts, and ends what was deleted meanwhile', async (t) => {
  const home = await makeHome(t);
  const { fleet, host, keyring } = await start(t, { home });
  await makePod(fleet, 'stays');
  await makePod(fleet, 'goes');
  await phaseOf(fleet, 'stays', 'Running');
  await phaseOf(fleet, 'goes', 'Running');
  const idOf = (name: string) => podOf(fleet, name)?.metadata.annotations?.['sandboxd.dev/id'];
  const id = idOf('stays');
  await host.crash();
  fleet.api.objects.delete('pods', 'sandboxd-acme', 'goes', 0);
  await makePod(fleet, 'new');
  const pods = { key: 'pods', keys: keyring.registry };
  const { daemon } = await fleet.host('h0', { home, pods, authenticator: keyring.authenticator });
  await phaseOf(fleet, 'new', 'Running');
  await until(() => daemon.manager.list().length === 2, 'two sandboxes');
  t.same(new Set(daemon.manager.list().map((each) => each.id)), new Set([id, idOf('new')]));

  // Its id is written again when someone takes it away.
  const pod = podOf(fleet, 'stays') as KubeObject;
  fleet.api.objects.change('pods', pod, { metadata: { annotations: { 'sandboxd.dev/id': null } } });
  await until(() => idOf('stays') === id, 'the id');
});

t.test('how a pod ends: by its service, by a delete, by its host, and by a change of its size', async (t) => {
  const home = await makeHome(t);
  const { fleet, host } = await start(t, { home });
  const service = { command: ['x'] };
  home.host.agentFaults = { exitedWith: 0 };
  await makePod(fleet, 'done', { container: service, spec: { restartPolicy: 'Never' } });
  const done = await phaseOf(fleet, 'done', 'Succeeded');
  t.match(done.status.containerStatuses[0].state, { terminated: { exitCode: 0, reason: 'Completed' } });
  home.host.agentFaults = { exitedWith: 3 };
  await makePod(fleet, 'bad', { container: service, spec: { restartPolicy: 'OnFailure' } });
  t.match((await phaseOf(fleet, 'bad', 'Failed')).status.containerStatuses[0].state, {
    terminated: { exitCode: 3, reason: 'Error' },
  });
  await until(() => host.daemon.manager.list().length === 0, 'no sandbox of a pod that is over');
  home.host.agentFaults = {};
  for (const name of ['deleted', 'died', 'resized', 'evicted']) {
    await makePod(fleet, name, { container: service });
    await phaseOf(fleet, name, 'Running');
  }
  const idOf = (name: string) => podOf(fleet, name)?.metadata.annotations?.['sandboxd.dev/id'] ?? '';
  await host.daemon.manager.delete(idOf('deleted'));
  t.match((await phaseOf(fleet, 'deleted', 'Failed')).status, { reason: 'Deleted' });
  const died = idOf('died');
  home.host.running.find(({ identity }) => JSON.stringify(identity).includes(died))?.end('it broke');
  t.match((await phaseOf(fleet, 'died', 'Failed')).status, { reason: 'VmExited' });
  const resized = podOf(fleet, 'resized') as KubeObject;
  const [first] = resized.spec.containers;
  fleet.api.objects.change('pods', resized, {
    spec: { containers: [{ ...first, resources: { requests: { cpu: '200m', memory: '64Mi' } } }] },
  });
  t.match((await phaseOf(fleet, 'resized', 'Failed')).status, { reason: 'SizeChanged' });
  fleet.api.objects.change('pods', podOf(fleet, 'evicted') as KubeObject, { status: { phase: 'Failed' } });
  await until(() => host.podRecords.all().every(({ id }) => id !== idOf('evicted')), 'evicted');
});

t.test('a cordoned node keeps its pods, and a create there is refused', async (t) => {
  const settings = makeStoreSettings(t, (await startS3(t)).url);
  const { fleet, host } = await start(t, { snapshotStore: openTestStore(t, settings).store });
  await makePod(fleet, 'stays');
  await phaseOf(fleet, 'stays', 'Running');
  const other = await host.daemon.manager.create({}, undefined);
  const node = fleet.api.objects.get('nodes', '', 'h0');
  fleet.api.objects.change('nodes', node, { spec: { unschedulable: true } });
  const { drain } = host.daemon.manager.moves;
  await until(() => drain.progress().sandboxes.some(({ state }) => state === 'offered'), 'one is offered');
  const id = podOf(fleet, 'stays')?.metadata.annotations?.['sandboxd.dev/id'] ?? '';
  t.match(Object.fromEntries(drain.progress().sandboxes.map((each) => [each.id, each.state])), {
    [id]: 'stays',
    [other.id]: 'offered',
  });
  t.equal(host.daemon.manager.find(id)?.state, 'running');
  const late = toPod('late', { spec: { nodeName: 'h0' } }) as KubeObject;
  fleet.api.objects.create('pods', 'sandboxd-acme', late);
  t.match((await phaseOf(fleet, 'late', 'Failed')).status, { reason: 'OutOfCapacity', message: /drained/ });
});
