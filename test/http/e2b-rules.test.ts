// Headers that a create of E2B adds to requests of guests: they become secrets that the guest does not have.
import t, { type Test } from 'tap';
import { serveE2b } from './e2b-front.ts';
import { startKeyed } from './keyed-daemon.ts';

const CLOSED = { denyOut: ['0.0.0.0/0'], allowOut: ['api.example'] };
const ruleOf = (headers: Record<string, string>) => ({ 'api.example': [{ transform: { headers } }] });
const VALUE = 'Bearer not-for-guests';

async function start(t: Test) {
  const keyed = await startKeyed(t);
  const { app, daemon, keyring } = keyed;
  const e2b = await serveE2b(t, { app, sandboxes: daemon.manager, keyring, daemon });
  const { text: key } = await keyring.registry.create({ name: 'k' }, 'e2b');
  const create = (rules: object) =>
    e2b.ask('POST', '/v2/sandboxes', { key, body: { templateID: 'base', network: { ...CLOSED, rules } } });
  const boundIn = async (sandboxID: string) => {
    const id = `sbx_${sandboxID.slice(3)}`;
    const headers = { authorization: `Bearer ${key}` };
    const answer = await app.request(`/sandboxes/${id}/network`, { headers });
    return ((await answer.json()) as { readonly secrets?: readonly object[] }).secrets;
  };
  return { e2b, key, create, boundIn };
}

t.test('a rule becomes an injected secret, whose value no answer has', async (t) => {
  const { e2b, key, create, boundIn } = await start(t);
  const { status, json, text } = await create(ruleOf({ Authorization: VALUE, 'X-Other': 'x'.repeat(8) }));
  t.equal(status, 201, text);
  const bound = await boundIn(json.sandboxID);
  t.match(bound, [
    { name: 'E2B_RULE_1', hosts: ['api.example'], inject: { header: /^authorization$/i } },
    { name: 'E2B_RULE_2', hosts: ['api.example'], inject: { header: /^x-other$/i } },
  ]);
  const at = `/sandboxes/${json.sandboxID}`;
  const detail = await e2b.ask('GET', at, { key });
  t.notMatch(detail.text, /not-for-guests/);
  t.same(detail.json.network.rules, ruleOf({ Authorization: '***', 'X-Other': '***' }));
  const put = (body: object) => e2b.ask('PUT', `${at}/network`, { key, body: { ...CLOSED, ...body } });
  t.equal((await put({ rules: ruleOf({ 'X-New': VALUE }) })).status, 204);
  t.match(await boundIn(json.sandboxID), [{ inject: { header: /^x-new$/i } }]);
  t.notMatch((await e2b.ask('GET', at, { key })).text, /not-for-guests/);
  t.equal((await put({})).status, 204, 'without rules they are cleared, as in E2B');
  t.same((await boundIn(json.sandboxID)) ?? [], []);
  t.notOk((await e2b.ask('GET', at, { key })).json.network.rules);
});

t.test('what cannot be a secret is refused with a sentence', async (t) => {
  const { create } = await start(t);
  for (const [rules, wanted] of [
    [ruleOf({ 'X-Short': 'a' }), 501],
    [ruleOf({ 'X-Lines': 'one line\nand two' }), 501],
    [ruleOf({ 'bad header': VALUE }), 400],
    [ruleOf({ Host: VALUE }), 400],
    [{ 'not a host': [{ transform: { headers: { a: VALUE } } }] }, 400],
    [{ 'api.example': { transform: {} } }, 400],
    [ruleOf(Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`h${at}`, VALUE]))), 400],
  ] as const) {
    const { status, json } = await create(rules);
    t.equal(status, wanted, JSON.stringify(json));
    t.match(json, { code: wanted, message: /\w+ \w+/ });
    t.notMatch(json.message, /not-for-guests/);
  }
  t.equal((await create({ 'api.example': [{}], 'b.example': [{ transform: null }] })).status, 201);
});
