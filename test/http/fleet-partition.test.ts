// Hosts and gateways of a fleet that are cut off or killed: what runs goes on, nothing is twice, nothing is left.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { writePlaceHeader } from '../../host-agent/src/fleet/place-header.ts';
import { PLACE_HEADER } from '../../host-agent/src/http/index.ts';
import { ask, type Fleet, type FleetHost, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

const TOKEN = 'abcdef.0123456789abcdef';
/** In a cluster, 40 s until a host fences itself, and 50 s until it is not ready. */
const TIMES = { fenceMs: scaled(3000), graceMs: scaled(4000) };

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const podsOf = (fleet: Fleet) => fleet.api.objects.list('pods');
const idsOf = (host: FleetHost) => host.daemon.manager.list().map(({ id }) => id);
const podName = (id: string) => id.replace('_', '-');
const isReady = (fleet: Fleet, name: string) =>
  fleet.api.objects.find('nodes', '', name)?.status?.conditions?.[0]?.status === 'True';

/** As clients do: on a busy machine a host may fence itself for a moment. */
async function create(url: string): Promise<void> {
  for (const untilMs = performance.now() + scaled(30_000); ; await sleep(200)) {
    const { status, body } = await ask(url, 'POST', '/sandboxes', {});
    if (status === 201) return;
    if (status !== 503 || performance.now() > untilMs) throw new Error(JSON.stringify(body));
  }
}

async function startTwo(t: Parameters<typeof startFleet>[0]) {
  const fleet = await startFleet(t, { hasIdentities: true });
  fleet.api.bootstrapTokens.add(TOKEN);
  const options = { bootstrapToken: TOKEN, fenceMs: TIMES.fenceMs };
  const hosts = [await fleet.host('h0', options), await fleet.host('h1', options)] as const;
  await fleet.ready(2);
  return { fleet, hosts, options };
}

t.test(
  'a host is cut off from the API server: its execs go on, it takes nothing, and both agree after',
  async (t) => {
    const { fleet, hosts } = await startTwo(t);
    const [cut, other] = hosts;
    const { url, map } = await fleet.gateway();
    while (hosts.some((host) => idsOf(host).length < 3)) await create(url);
    const count = hosts.flatMap(idsOf).length;
    await until(() => podsOf(fleet).every(({ status }) => status.phase === 'Running'), 'running pods');
    const [busy = '', deleted = '', gone = ''] = idsOf(cut);
    const accept = { accept: 'application/json' };
    const running = ask(url, 'POST', `/sandboxes/${busy}/exec`, { cmd: ['wait'] }, accept);
    const { agent } = cut.daemon.host.of(busy);
    await until(() => agent.execs.length === 1, 'an exec');

    t.teardown(fleet.api.watchLeases(TIMES.graceMs));
    fleet.api.cut('system:node:h0');
    await until(() => !isReady(fleet, 'h0'), 'a host that is not ready');
    // Deleted there by its gateway, and here by an operator.
    t.equal((await ask(url, 'DELETE', `/sandboxes/${gone}`)).status, 204);
    fleet.api.objects.delete('pods', 'sandboxd', podName(deleted), undefined);
    const own = idsOf(other).length;
    for (let n = 0; n < 3; n++) await create(url);
    t.equal(idsOf(other).length, own + 3, 'creates go on, on the other host');
    t.equal((await ask(url, 'POST', `/sandboxes/${busy}/exec`, { cmd: ['true'] }, accept)).status, 200);
    // A gateway whose view is older would place here.
    const places = [{ id: 'sbx_0123456789abc', uid: 'x' }];
    const header = writePlaceHeader({ kind: 'place', namespace: 'sandboxd', places }, fleet.seal);
    await until(() => cut.agent.isFenced, 'a host that fences itself');
    t.match(await ask(cut.url, 'POST', '/sandboxes', {}, { [PLACE_HEADER]: header }), {
      status: 503,
      body: { error: /cannot reach the API server/ },
    });
    t.notOk(idsOf(cut).includes(gone));
    t.ok(idsOf(cut).includes(deleted));

    fleet.api.heal('system:node:h0');
    await until(() => isReady(fleet, 'h0'), 'the host again', 60_000);
    await until(() => !idsOf(cut).includes(deleted), 'the end of what was deleted');
    await until(() => podsOf(fleet).length === count + 1, 'as many pods');
    agent.execs[0]!.stream.finish({ exec: { exitCode: 0, durationUs: 1 } });
    t.match(await running, { status: 200, body: { exit_code: 0 } });
    const all = hosts.flatMap(idsOf);
    t.equal(new Set(all).size, all.length, 'none is twice');
    t.same(new Set(all.map(podName)), new Set(podsOf(fleet).map(({ metadata }) => metadata.name)));
    await until(() => map.size === count + 1, 'as many places');
    for (const id of all) t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200);
  },
);

t.test(
  'a host loses its power: its sandboxes are lost by name, creates go on, and it comes back',
  async (t) => {
    const { fleet, hosts, options } = await startTwo(t);
    const [dead, other] = hosts;
    const { url, map } = await fleet.gateway();
    while (hosts.some((host) => idsOf(host).length < 3)) await create(url);
    const count = hosts.flatMap(idsOf).length;
    await until(() => podsOf(fleet).every(({ status }) => status.phase === 'Running'), 'running pods');
    const [kept = '', deleted = '', left = ''] = idsOf(dead);
    t.teardown(fleet.api.watchLeases(TIMES.graceMs));
    await dead.crash();
    // Its VMs are gone, too.
    for (const machine of dead.daemon.host.running) machine.end('the power was cut');
    await until(() => !map.host('h0')?.isReady, 'a host that is not ready');
    t.match(await ask(url, 'GET', `/sandboxes/${kept}`), {
      status: 502,
      body: { error: /h0 .*may be lost/ },
    });
    t.match(await ask(url, 'GET', '/sandboxes'), { status: 200, body: { unreachable_hosts: ['h0'] } });
    const own = idsOf(other).length;
    for (let n = 0; n < 3; n++) await create(url);
    t.equal(idsOf(other).length, own + 3);
    fleet.api.objects.delete('pods', 'sandboxd', podName(deleted), undefined);

    const again = await fleet.host('h0', { ...options, home: dead.daemon.home });
    await until(() => podsOf(fleet).length === count + 2, 'no pod of what was deleted');
    const phases = () =>
      [kept, left].map((id) => fleet.api.objects.get('pods', 'sandboxd', podName(id)).status.phase);
    await until(() => phases().every((phase) => phase === 'Failed'), 'failed pods');
    for (const id of [kept, left])
      t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { id, state: 'failed' } });
    t.equal((await ask(url, 'GET', `/sandboxes/${deleted}`)).status, 404);
    t.notOk(idsOf(again).includes(deleted));
  },
);

t.test(
  'a gateway is killed while a host creates: nothing is left, and a key finds what was made',
  async (t) => {
    const fleet = await startFleet(t);
    const host = await fleet.host('h0', { unusedMs: 500 });
    await fleet.ready(1);
    const other = await fleet.gateway();
    const key = { 'idempotency-key': 'survives' };
    const killed = await fleet.gatewayProcess();
    const goOn = Promise.withResolvers<void>();
    host.daemon.home.host.onBoot = () => goOn.promise;
    const failed = [{}, key].map((headers) =>
      ask(killed.url, 'POST', '/sandboxes', { memory_mib: 256 }, headers).then(
        () => false,
        () => true,
      ),
    );
    await until(() => host.records.all().length === 2, 'two places in use');
    killed.kill();
    t.same(await Promise.all(failed), [true, true], 'the clients hear nothing');
    await sleep(50);
    goOn.resolve();
    await until(() => idsOf(host).length === 1 && podsOf(fleet).length === 1, 'what has a key');
    const again = await ask(other.url, 'POST', '/sandboxes', { memory_mib: 256 }, key);
    t.equal(again.status, 201, JSON.stringify(again.body));
    t.same(idsOf(host), [again.body.id]);
    await until(() => podsOf(fleet)[0]?.status.phase === 'Running', 'a running pod');
    t.same(
      podsOf(fleet).map(({ metadata }) => metadata.name),
      [podName(again.body.id)],
    );
  },
);
