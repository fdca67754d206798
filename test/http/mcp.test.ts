// `/mcp` as agents use it: the official client, over a real server with keys.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Policy, ROUTES } from '@sandboxd/api';
import t, { type Test } from 'tap';
import type { AuditEntry } from '../../host-agent/src/audit/index.ts';
import { Agent } from '../support/mcp.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';
import { serve } from './support.ts';

type Refused = { readonly error: string };

async function start(t: Test) {
  const keyring = await openKeyring(t);
  const entries: AuditEntry[] = [];
  const audit = { write: (entry: AuditEntry) => void entries.push(entry) };
  const stopping = new AbortController();
  const { url, sandboxes } = await serve(t, {
    authenticator: keyring.authenticator,
    audit,
    stopping: stopping.signal,
  });
  const key = await keyring.make();
  const connect = async (query = '', as = key): Promise<Agent> => {
    const agent = await Agent.over(url, as, query);
    t.teardown(() => agent[Symbol.asyncDispose]());
    return agent;
  };
  const post = (body: unknown, query = '', headers: Readonly<Record<string, string>> = {}) =>
    fetch(`${url}/mcp${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  return { keyring, entries, url, sandboxes, connect, post, stopping };
}

const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };

t.test('tools, and a sandbox that is made and deleted with them', async (t) => {
  const { connect, entries, sandboxes } = await start(t);
  const agent = await connect('?label=agent=one&timeout_s=600');
  const { tools } = await agent.client.listTools();
  t.ok(tools.some(({ name }) => name === 'run_command'));
  t.notOk(
    tools.some(({ name }) => name === 'upload_file'),
    'there is no directory to share',
  );
  const { value, isError, text } = await agent.call('create_sandbox', { name: 'work' });
  t.equal(isError, false, text);
  t.match(sandboxes.created, [{ name: 'work', labels: { agent: 'one' }, timeoutS: 600 }]);
  const create = entries.find((entry) => 'route' in entry && entry.route === 'createSandbox');
  t.match(create, { key: 'key-0', address: '127.0.0.1', made: [value.id], decision: 'allowed' });
});

t.test('the key decides about each call, whatever the query says', async (t) => {
  const { connect, keyring, entries } = await start(t);
  const policy: Policy = { operations: ['view'] };
  const agent = await connect('?profile=base', await keyring.make({ policy }));
  t.equal((await agent.call('list_sandboxes')).isError, false);
  const refused = await agent.call('create_sandbox', {});
  t.equal(refused.isError, true);
  t.match(refused.text, /create/);
  const create = entries.find((entry) => 'route' in entry && entry.route === 'createSandbox');
  t.match(create, { status: 403, decision: 'denied' });
});

t.test('the query bounds the tools', async (t) => {
  const { connect, post } = await start(t);
  const narrow = await connect(
    '?tool=list_sandboxes&tool=create_sandbox&profile=other&label=a=b&max_sandboxes=1',
  );
  const { tools } = await narrow.client.listTools();
  t.same(tools.map(({ name }) => name).sort(), ['create_sandbox', 'list_sandboxes']);
  t.match(await narrow.call('create_sandbox', { profile: 'base' }), {
    isError: true,
    text: /"base" is not allowed/,
  });
  t.match(await narrow.call('create_sandbox', { hosts: ['a.org'] }), {
    isError: true,
    text: /none is allowed/,
  });
  for (const [query, problem] of [
    ['?tool=rm', /there is no tool "rm"/],
    ['?tool=upload_file', /there is no tool "upload_file"/],
    ['?max_sandboxes=2', /needs label/],
    ['?label=a', /must be key=value/],
    ['?profiles=base', /profiles/],
    ['?timeout_s=-1', /timeout_s/],
    [`?${'profile=x&'.repeat(65)}tool=read_file`, /64 times/],
  ] as const) {
    const response = await post(LIST, query);
    t.equal(response.status, 400, query);
    t.match(((await response.json()) as Refused).error, problem);
  }
});

t.test('the settings of clients in the page are valid, and so are their bounds', async (t) => {
  const { post } = await start(t);
  const page = readFileSync(resolve(import.meta.dirname, '../../docs/mcp.md'), 'utf8');
  const settings = [...page.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, text]) =>
    JSON.parse(text ?? ''),
  );
  t.ok(settings.every(({ mcpServers, servers }) => typeof (mcpServers ?? servers) === 'object'));
  const queries = [...page.matchAll(/example\.com\/mcp(\?[^'"]+)/g)].map(([, query]) => query ?? '');
  t.ok(queries.length >= 5 && settings.length >= 3);
  for (const query of queries) {
    const response = await post(LIST, query);
    t.equal(response.status, 200, query);
    await response.body?.cancel();
  }
});

t.test('the limit of sandboxes holds over calls at once, which come in messages of their own', async (t) => {
  const keyring = await openKeyring(t);
  const { manager } = await startMemoryDaemon(t);
  const { url } = await serve(t, { authenticator: keyring.authenticator, sandboxes: manager });
  const agent = await Agent.over(url, await keyring.make(), '?label=agent=one&max_sandboxes=2');
  t.teardown(() => agent[Symbol.asyncDispose]());
  const answers = await Promise.all(Array.from({ length: 6 }, () => agent.call('create_sandbox')));
  t.equal(answers.filter(({ isError }) => !isError).length, 2);
  t.equal(manager.list().length, 2);
});

t.test('what is no message of one client is refused', async (t) => {
  const { post, url } = await start(t);
  t.equal((await fetch(`${url}/mcp`, { method: 'POST', body: JSON.stringify(LIST) })).status, 401);
  for (const body of ['', '[]', 'null', '{', { jsonrpc: '1.0' }, [LIST, LIST]]) {
    const response = await post(body);
    t.equal(response.status, 400, JSON.stringify(body));
    await response.body?.cancel();
  }
  t.equal((await post({ ...LIST, params: { x: 'a'.repeat(2 ** 20) } })).status, 413);
  const get = await fetch(`${url}/mcp`, { headers: { accept: 'text/event-stream' } });
  t.ok([401, 405].includes(get.status), `${get.status}`);
  const other = await post(LIST, '', { origin: 'https://evil.example' });
  t.equal(other.status, 403, 'a page of another origin');
});

t.test('JSON-RPC’s own errors, and notifications', async (t) => {
  const { post } = await start(t);
  const unknown = await post({ jsonrpc: '2.0', id: 7, method: 'tools/none' });
  t.match(await unknown.text(), /"id":7/);
  const noted = await post({ jsonrpc: '2.0', method: 'notifications/initialized' });
  t.equal(noted.status, 202);
  t.equal(await noted.text(), '');
});

t.test('a command ends when its client leaves, its key is revoked, or the daemon stops', async (t) => {
  const { connect, keyring, sandboxes, stopping } = await start(t);
  const text = await keyring.make({ name: 'short' });
  const agent = await connect('', text);
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => exec.events.started?.(7);
  const other = await connect();
  other.call('run_command', { sandbox: id, command: 'sleep 1000' }).catch(() => undefined);
  await until(() => sandboxes.execs.length === 1);
  const ends = [
    (stop: AbortController) => stop.abort(),
    () => keyring.registry.revoke('short'),
    () => stopping.abort(),
  ];
  for (const [at, end] of ends.entries()) {
    const stop = new AbortController();
    const from = at === 2 ? await connect() : agent;
    const call = from.call('run_command', { sandbox: id, command: 'sleep 1000' }, stop.signal);
    const mine = at + 1;
    await until(() => sandboxes.execs.length === mine + 1);
    t.equal(sandboxes.execs[mine]?.isCancelled, false);
    t.equal(sandboxes.execs[0]?.isCancelled, false, 'a call of another client with the same number goes on');
    // The client may try again for long.
    call.catch(() => undefined);
    await end(stop);
    await until(() => sandboxes.execs[mine]?.isCancelled === true);
  }
});

t.equal(ROUTES.serveMcp.access, 'any-key');
