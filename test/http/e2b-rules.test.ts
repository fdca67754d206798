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
    return ((await answer.json()) as { readonly secrets?: readonly { readonly name: string }[] }).secrets;
  };
  const bind = async (sandboxID: string, secrets: object) => {
    const request = {
      method: 'PATCH',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ secrets }),
    };
    const { status } = await app.request(`/sandboxes/sbx_${sandboxID.slice(3)}/network`, request);
    t.equal(status, 200);
  };
  return { e2b, key, create, boundIn, bind };
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

t.test('a change takes away all that rules have bound, and nothing else', async (t) => {
  const { e2b, key, create, boundIn, bind } = await start(t);
  const { json } = await create(ruleOf({ 'X-One': VALUE, 'X-Two': VALUE }));
  const id = json.sandboxID;
  await bind(id, { MINE: { value: 'y'.repeat(8), hosts: ['api.example'] } });
  const names = async () => (await boundIn(id))?.map(({ name }) => name).sort();
  const put = (body: object) =>
    e2b.ask('PUT', `/sandboxes/${id}/network`, { key, body: { ...CLOSED, ...body } });
  t.equal((await put({ rules: ruleOf({ 'X-New': VALUE }) })).status, 204);
  t.same(await names(), ['E2B_RULE_1', 'MINE']);
  const own = `sbx_${id.slice(3)}`;
  const record = e2b.records.find(own);
  // As after a change by another client.
  if (record !== undefined) await e2b.records.put(own, { ...record, network: {} });
  const closing = { body: { allow_internet_access: false, rules: ruleOf({ 'X-New': VALUE }) }, key };
  t.equal((await e2b.ask('PUT', `/sandboxes/${id}/network`, closing)).status, 204);
  t.same(await names(), ['MINE'], 'a guest that reaches nothing needs none');
  t.notOk((await e2b.ask('GET', `/sandboxes/${id}`, { key })).json.network.rules);
  const puts = ['X-A', 'X-B', 'X-C', 'X-D'].map((header) => put({ rules: ruleOf({ [header]: VALUE }) }));
  t.same(
    (await Promise.all(puts)).map(({ status }) => status),
    [204, 204, 204, 204],
  );
  t.same(await names(), ['E2B_RULE_1', 'MINE'], 'of concurrent changes one is whole');
});

t.test('a copy shows the rules that it inherits, and a create can leave them', async (t) => {
  const { e2b, key, create, boundIn } = await start(t);
  const { json } = await create(ruleOf({ 'X-Old': VALUE }));
  const made = await e2b.ask('POST', `/sandboxes/${json.sandboxID}/snapshots`, { key, body: {} });
  t.equal(made.status, 201, made.text);
  const copy = async (network?: object) => {
    const body = { templateID: made.json.snapshotID, ...(network && { network }) };
    const answer = await e2b.ask('POST', '/v2/sandboxes', { key, body });
    t.equal(answer.status, 201, answer.text);
    const id = answer.json.sandboxID as string;
    const detail = await e2b.ask('GET', `/sandboxes/${id}`, { key });
    t.notMatch(detail.text, /not-for-guests/);
    return { id, rules: detail.json.network?.rules, bound: (await boundIn(id))?.length };
  };
  const whole = await copy();
  t.match(whole, { rules: ruleOf({ 'X-Old': '***' }), bound: 1 });
  t.equal((await e2b.ask('PUT', `/sandboxes/${whole.id}/network`, { key, body: CLOSED })).status, 204);
  t.same(await boundIn(whole.id), [], 'and they can be revoked');
  t.match(await copy({ allowPublicTraffic: false }), { rules: ruleOf({ 'X-Old': '***' }), bound: 1 });
  for (const network of [CLOSED, { rules: {} }, { rules: { 'api.example': [{}] } }])
    t.match(await copy(network), { rules: undefined, bound: 0 }, JSON.stringify(network));
  const other = { ...CLOSED, rules: ruleOf({ 'X-New': VALUE }) };
  t.match(await copy(other), { rules: ruleOf({ 'X-New': '***' }), bound: 1 });
});

t.test('many rules are few, and merged for a host', async (t) => {
  const { e2b, key, create } = await start(t);
  const entries = [
    { transform: { headers: { 'X-A': VALUE } } },
    {},
    { transform: { headers: { 'X-B': VALUE } } },
  ];
  const { status, json } = await create({ 'api.example': entries, 'b.example': [{}] });
  t.equal(status, 201);
  const detail = await e2b.ask('GET', `/sandboxes/${json.sandboxID}`, { key });
  t.same(detail.json.network.rules, ruleOf({ 'X-A': '***', 'X-B': '***' }));
  const hosts = Array.from({ length: 65 }, (_, at) => [`h${at}.example`, []]);
  t.equal((await create(Object.fromEntries(hosts.slice(1)))).status, 201);
  t.equal((await create(Object.fromEntries(hosts))).status, 400);
});

t.test('what cannot be a secret is refused with a sentence', async (t) => {
  const { e2b, key, create } = await start(t);
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
    const body = { templateID: 'base', allow_internet_access: false, network: { rules } };
    const closed = await e2b.ask('POST', '/v2/sandboxes', { key, body });
    t.equal(closed.status, wanted, 'also without a network');
  }
  t.equal((await create({ 'api.example': [{}], 'b.example': [{ transform: null }] })).status, 201);
});
