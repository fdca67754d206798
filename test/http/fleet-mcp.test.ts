// Tools for agents at the gateway of a fleet: they reach sandboxes of all hosts, with the key of the agent.
import t from 'tap';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { Agent } from '../support/mcp.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('tools reach sandboxes of all hosts, as far as the key may', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const viewer = await keyring.make({ policy: { operations: ['view'] } });
  const { authenticator } = keyring;
  const hosts = [await fleet.host('h0', { authenticator }), await fleet.host('h1', { authenticator })];
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const connect = async (as: string, query = ''): Promise<Agent> => {
    const agent = await Agent.over(url, as, query);
    t.teardown(() => agent[Symbol.asyncDispose]());
    return agent;
  };
  const agent = await connect(key, '?label=agent=one&max_sandboxes=4&timeout_s=600');
  const ids: unknown[] = [];
  for (let n = 0; n < 4; n++) {
    const made = await agent.call('create_sandbox', {});
    t.equal(made.isError, false, made.text);
    ids.push(made.value.id);
  }
  for (const { daemon } of hosts) {
    t.equal(daemon.manager.list().length, 2);
    t.match(daemon.manager.list()[0], { labels: { agent: 'one' } });
  }
  t.match(await agent.call('create_sandbox', {}), { isError: true, text: /4/ }, 'bounds are those of a host');
  const listed = (await agent.call('list_sandboxes')).value.sandboxes as { id: string }[];
  t.same(new Set(listed.map(({ id }) => id)), new Set(ids));
  for (const id of ids)
    t.equal((await agent.call('run_command', { sandbox: id, command: 'true' })).isError, false);
  const other = await connect(key, '?label=agent=two');
  t.equal((await other.call('delete_sandbox', { sandbox: ids[0] })).isError, true);
  const narrow = await connect(viewer);
  t.equal((await narrow.call('list_sandboxes')).isError, false);
  t.match(await narrow.call('create_sandbox', {}), { isError: true, text: /create/ });
  for (const id of ids) t.equal((await agent.call('delete_sandbox', { sandbox: id })).isError, false);
  await until(() => fleet.api.objects.list('pods').length === 0, 'no pods');
});

t.test('messages are checked as at a host', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  await fleet.host('h0', { authenticator: keyring.authenticator });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const authorization = `Bearer ${key}`;
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
  t.match(await ask(url, 'POST', '/mcp', message), { status: 401, body: { code: 'unauthenticated' } });
  t.match(await ask(url, 'POST', '/mcp?tool=none', message, { authorization }), {
    ...{ status: 400, body: { code: 'invalid_argument' } },
  });
  t.match(await ask(url, 'POST', '/mcp?max_sandboxes=1', message, { authorization }), { status: 400 });
  t.match(await ask(url, 'GET', '/mcp', undefined, { authorization }), { status: 405 });
  const origin = 'http://evil.example';
  t.match(await ask(url, 'POST', '/mcp', message, { authorization, origin }), { status: 403 });
  const place = { authorization, 'sandboxd-place': 'place x y z' };
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...place },
    body: JSON.stringify({
      ...message,
      method: 'tools/call',
      params: { name: 'create_sandbox', arguments: {} },
    }),
  });
  t.match(await response.text(), /sbx_/, 'what a client says of places reaches no host');
});
