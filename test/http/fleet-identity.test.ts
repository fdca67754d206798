// Hosts with an identity of their own: a certificate for which they ask with a bootstrap token, and what it is good for.
import t from 'tap';
import { isRefusal } from '../../host-agent/src/fleet/kube/client.ts';
import { ask, type Fleet, type FleetHost, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

const TOKEN = 'abcdef.0123456789abcdef';
const DAY_MS = 24 * 60 * 60 * 1000;

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const requestsOf = (fleet: Fleet) => fleet.api.objects.list('certificatesigningrequests');
const certificateOf = ({ identity }: FleetHost) => identity!.current().cert;

t.test('a host asks for a certificate, with which it may write what is its own', async (t) => {
  const fleet = await startFleet(t, { hasIdentities: true });
  fleet.api.bootstrapTokens.add(TOKEN);
  const [first, second] = await Promise.all(
    ['h0', 'h1'].map((name) => fleet.host(name, { bootstrapToken: TOKEN, unusedMs: 300 })),
  );
  await Promise.all([first!.agent.joined(), second!.agent.joined()]);
  await fleet.ready(2);
  t.equal(requestsOf(fleet).length, 2);
  const { url, catalogue } = await fleet.gateway();
  const made = [];
  for (let n = 0; n < 4; n++) made.push(await ask(url, 'POST', '/sandboxes', {}));
  t.same(new Set(made.map(({ status }) => status)), new Set([201]));
  const pods = () => fleet.api.objects.list('pods');
  await until(() => pods().every(({ status }) => status.phase === 'Running'), 'running pods');
  const [deleted, gone, kept] = made.map(({ body }) => body.id);
  t.equal((await ask(url, 'DELETE', `/sandboxes/${deleted}`)).status, 204);
  fleet.api.objects.delete('pods', 'sandboxd', gone!.replace('_', '-'), undefined);
  await until(() => pods().length === 2, 'two pods');
  await catalogue.place(
    { id: 'sbx_0123456789abc', tenant: undefined, vcpus: 1, memoryMib: 128, claims: [] },
    new AbortController().signal,
  );
  await until(() => pods().length === 2, 'no pod of the place that nothing used');

  const [home, other] =
    first!.daemon.manager.find(kept!) === undefined ? [second!, first!] : [first!, second!];
  const podPath = `/api/v1/namespaces/sandboxd/pods/${kept!.replace('_', '-')}`;
  const uid = pods().find(({ metadata }) => podPath.endsWith(metadata.name))!.metadata.uid;
  const status = { status: { phase: 'Failed' } };
  for (const [path, body] of [
    [`${podPath}/status`, { ...status, metadata: { uid } }],
    [`/api/v1/nodes/${home.name}`, { metadata: { labels: { a: 'b' } } }],
    [`/api/v1/nodes/${home.name}/status`, status],
    [podPath, { metadata: { uid, finalizers: null } }],
  ] as const) {
    const request = { method: 'PATCH', path, patch: 'merge', body } as const;
    const error = await other.client.request(request).catch((refused: unknown) => refused);
    t.ok(isRefusal(error, 403), `${path} ${JSON.stringify(error)}`);
  }
});

t.test('a request waits for its approval, also over a restart of the host', async (t) => {
  const fleet = await startFleet(t, { hasIdentities: true });
  fleet.api.bootstrapTokens.add(TOKEN);
  fleet.api.approval = 'wait';
  const host = await fleet.host('h0', { bootstrapToken: TOKEN });
  await until(() => requestsOf(fleet).length === 1, 'a request');
  t.match(await ask(host.url, 'POST', '/sandboxes', {}), { status: 409 });
  t.throws(() => host.identity!.current(), { code: 'upstream' });
  await host.crash();
  const again = await fleet.host('h0', { bootstrapToken: TOKEN, home: host.daemon.home });
  fleet.api.approval = 'approve';
  fleet.api.decide(requestsOf(fleet)[0]!.metadata.name);
  await again.agent.joined();
  t.equal(requestsOf(fleet).length, 1);

  // The certificate is kept, and needs no token any more.
  const kept = certificateOf(again);
  await again.crash();
  const third = await fleet.host('h0', { bootstrapToken: '', home: host.daemon.home });
  await third.agent.joined();
  t.equal(certificateOf(third), kept);
  t.equal(requestsOf(fleet).length, 1);
  // It is of that name only.
  await third.crash();
  const renamed = await fleet.host('h1', { bootstrapToken: TOKEN, home: host.daemon.home, instance: 'h0' });
  await renamed.agent.joined();
  t.equal(requestsOf(fleet).length, 2);
});

t.test('a refused request is made again, with another key', async (t) => {
  const fleet = await startFleet(t, { hasIdentities: true });
  const host = await fleet.host('h0', { bootstrapToken: TOKEN });
  await until(() => host.daemon.store.table('fleet_identity').get('next') !== undefined, 'a key');
  t.equal(requestsOf(fleet).length, 0, 'the token is not known');
  fleet.api.approval = 'deny';
  fleet.api.bootstrapTokens.add(TOKEN);
  await until(() => requestsOf(fleet).length === 1, 'a request');
  await until(() => host.daemon.store.table('fleet_identity').get('next') === undefined, 'no request');
  fleet.api.approval = 'approve';
  await host.agent.joined();
  t.equal(requestsOf(fleet).length, 2);
});

t.test(
  'a certificate is renewed with itself, and one that is refused or has ended with the token',
  async (t) => {
    const fleet = await startFleet(t, { hasIdentities: true });
    fleet.api.bootstrapTokens.add(TOKEN);
    let aheadMs = 0;
    const now = () => Date.now() + aheadMs;
    const host = await fleet.host('h0', { bootstrapToken: TOKEN, now });
    await host.agent.joined();
    const { url } = await fleet.gateway();
    const made = await ask(url, 'POST', '/sandboxes', {});
    t.equal(made.status, 201);
    const renewed = async (count: number, what: string) => {
      const former = certificateOf(host);
      await until(() => certificateOf(host) !== former, what);
      t.equal(requestsOf(fleet).length, count, what);
    };
    fleet.api.bootstrapTokens.clear();
    aheadMs = DAY_MS * 0.95;
    await renewed(2, 'renewed');
    aheadMs = 0;
    // Its certificate has ended; the operator gives it another token.
    aheadMs = 2 * DAY_MS;
    await until(() => host.daemon.store.table('fleet_identity').get('next') !== undefined, 'another request');
    t.equal(requestsOf(fleet).length, 2);
    fleet.api.bootstrapTokens.add(TOKEN);
    await until(() => requestsOf(fleet).length >= 3, 'asked with the token');
    aheadMs = 0;
    fleet.api.distrusted.add('system:node:h0');
    const count = requestsOf(fleet).length;
    await until(
      () => requestsOf(fleet).length > count,
      'asked with the token, since the API server refuses it',
    );
    fleet.api.distrusted.clear();
    const next = () => host.daemon.store.table('fleet_identity').get('next');
    await until(() => next() === undefined, 'a certificate');
    // It is refused for a moment, and the host has no token any more: it goes on with what it has.
    fleet.api.bootstrapTokens.clear();
    fleet.api.distrusted.add('system:node:h0');
    await until(() => next() !== undefined, 'a key');
    fleet.api.distrusted.clear();
    aheadMs = DAY_MS * 0.95;
    await renewed(requestsOf(fleet).length + 1, 'renewed with itself again');
    aheadMs = 0;
    t.equal((await ask(url, 'DELETE', `/sandboxes/${made.body.id}`)).status, 204);
    await until(() => fleet.api.objects.list('pods').length === 0, 'no pods');
  },
);
