// What the console makes of a form, of a log, of snapshots and of denied connections, without a browser.
import type { EgressRecord, LogRecord, NetworkPolicy, SandboxInfo, SnapshotInfo } from '@sandboxd/client';
import t from 'tap';
import { formatBytes, formatSeconds, toShellWord, toVisible } from '../../../console/src/parts/format.ts';
import { LogLines } from '../../../console/src/sandbox/log-lines.ts';
import { describeRule, describeSecret, permitting } from '../../../console/src/sandbox/network/rules.ts';
import { EMPTY_FORM, parseForm, toCommand, toCurl } from '../../../console/src/sandboxes/create-lines.ts';
import { matches, parseFilters, toQuery } from '../../../console/src/sandboxes/filters.ts';
import { type Node, toForest } from '../../../console/src/snapshots/forest.ts';

t.test('numbers and untrusted text', async (t) => {
  t.same([0, 999, 1000, 1536, 4 * 2 ** 30].map(formatBytes), ['0 B', '999 B', '1 KiB', '1.5 KiB', '4 GiB']);
  t.same([-1, 59.4, 60, 3600, 11_100, 200_000].map(formatSeconds), [
    '0 s',
    '59 s',
    '1 min',
    '1 h',
    '3 h 5 min',
    '2 d',
  ]);
  t.equal(toVisible('a\u202Eb\n\u001b[1m'), 'a\\u202eb\\u000a\\u001b[1m');
  t.equal(toVisible('Zoë 日本 😀'), 'Zoë 日本 😀');
  t.equal(toShellWord('*.debian.org'), "'*.debian.org'");
  t.equal(toShellWord(''), "''");
});

t.test('a form as a request and as lines of a terminal', async (t) => {
  t.same(parseForm(EMPTY_FORM), { request: {}, problems: {} });
  t.equal(toCommand({}, 'base'), 'sandbox run base');
  const form = {
    ...{
      ...EMPTY_FORM,
      source: 'image' as const,
      image: ' nginx:alpine ',
      name: "it's",
      labels: 'team=web, ready a=b=c',
    },
    ...{ vcpus: '2', memory: '512', timeout: '1.5', hosts: '*.debian.org github.com' },
  };
  const { request, problems } = parseForm(form);
  t.same(problems, {});
  t.same(request, {
    image: { oci: 'nginx:alpine' },
    name: "it's",
    labels: { team: 'web', ready: '', a: 'b=c' },
    vcpus: 2,
    memory_mib: 512,
    timeout_s: 90,
    network: { enabled: true, allowlist: ['*.debian.org', 'github.com'] },
  });
  t.equal(
    toCommand(request, 'base'),
    "sandbox run --name 'it'\\''s' --label team=web --label ready= --label a=b=c --memory 512m --cpus 2 " +
      "--timeout 90s --network-allow '*.debian.org' --network-allow github.com nginx:alpine",
  );
  t.equal(
    toCurl('http://h:1', { name: "it's" }, true),
    `curl -X POST http://h:1/sandboxes -H "Authorization: Bearer $SANDBOXD_API_KEY" -d '{"name":"it'\\''s"}'`,
  );
});

t.test('sizes and times of a form have units, and nothing else becomes the default', async (t) => {
  const parse = (changes: Partial<typeof EMPTY_FORM>) => parseForm({ ...EMPTY_FORM, ...changes });
  for (const [timeout, timeout_s] of [
    ['90', 5400],
    [' 1.5 ', 90],
    ['30s', 30],
    ['30m', 1800],
    ['1H', 3600],
    ['2d', 172_800],
  ] as const)
    t.same(parse({ timeout }), { request: { timeout_s }, problems: {} }, timeout);
  for (const [memory, memory_mib] of [
    ['512', 512],
    ['512m', 512],
    ['2g', 2048],
    ['1.5g', 1536],
  ] as const)
    t.same(parse({ memory }), { request: { memory_mib }, problems: {} }, memory);
  for (const text of ['-5', '0', '0m', 'never', '1e3', '5x', '1,5', 'Infinity', '0x10', 's', '1 h', '0.0001'])
    for (const name of ['timeout', 'memory', 'vcpus'] as const) {
      const { request, problems } = parse({ [name]: text });
      t.same(request, {}, `${name} ${text}`);
      t.type(problems[name], 'string', `${name} ${text}`);
    }
  t.type(parse({ vcpus: '1.5' }).problems.vcpus, 'string');
  t.type(parse({ vcpus: '2g' }).problems.vcpus, 'string');
});

t.test('filters from the URL and back', async (t) => {
  const query = new URLSearchParams('q=build+x&state=running&label=team%3Dweb&label=ready');
  const filters = parseFilters(query);
  t.same(filters, { text: 'build x', state: 'running', labels: ['team=web', 'ready'] });
  t.equal(toQuery(filters).toString(), query.toString());
  const info = {
    id: 'sbx_1',
    name: 'Build-X',
    state: 'running',
    labels: { team: 'web', ready: '' },
  } as unknown as SandboxInfo;
  t.ok(matches(info, filters));
  t.notOk(matches(info, { ...filters, text: 'build zz' }));
  t.notOk(matches(info, { ...filters, labels: ['team=we'] }));
  t.notOk(matches(info, { ...filters, labels: ['constructor'] }), 'a label that only the prototype has');
});

t.test('chunks of a log become lines without escape sequences', async (t) => {
  const lines = new LogLines();
  const push = (text: string, stream: LogRecord['stream'] = 'stdout') =>
    lines.push({ source: 'exec', stream, text, time_ms: 5 });
  push('he');
  push('oops\n', 'stderr');
  push('llo\nwor');
  push('ld\u001b[31m!\u001b[0m\u001b]0;title\u0007\r\n');
  push('started', 'event');
  push('died', 'event');
  t.same(
    lines.all.map(({ stream, text }) => `${stream} ${text}`),
    ['stdout hello', 'stderr oops', 'stdout world!', 'event started', 'event died'],
  );
  for (let at = 0; at < 3000; at++) push(`${at}\n`);
  t.equal(lines.all.length, 2000);
  t.equal(lines.all.at(-1)?.text, '2999');
});

t.test('the least change that permits a denied connection', async (t) => {
  const policy = {
    generation: 1,
    allowlist: ['a.example'],
    rules: [],
    presets: [],
  } as unknown as NetworkPolicy;
  const denied = (record: object) =>
    permitting({ at: '', verdict: 'denied', reason: '', ...record } as EgressRecord, policy);
  t.same(denied({ protocol: 'tls', name: 'b.example', address: '192.0.2.1', port: 443 }), {
    rules: [{ host: 'b.example', protocol: 'tls', ports: [443] }],
  });
  t.same(denied({ protocol: 'dns', name: 'b.example' }), { allowlist: ['a.example', 'b.example'] });
  t.same(denied({ protocol: 'tcp', address: '192.0.2.1', port: 22 }), {
    rules: [{ cidr: '192.0.2.1/32', protocol: 'tcp', ports: [22] }],
  });
  t.same(denied({ protocol: 'tls', address: '192.0.2.1', port: 443 }), {
    rules: [{ cidr: '192.0.2.1/32', protocol: 'tcp', ports: [443] }],
  });
  t.equal(denied({ protocol: 'icmp', address: '192.0.2.1' }), undefined);

  const request = (method: string, path: string) =>
    denied({ protocol: 'tls', name: 'b.example', address: '192.0.2.1', port: 443, method, path });
  const read = { host: 'b.example', protocol: 'tls', ports: [443] };
  t.same(request('POST', '/a/b'), { rules: [{ ...read, methods: ['POST'], paths: ['/a/b'] }] });
  t.same(request('GET', '/@a%2fb'), {
    rules: [{ ...read, methods: ['GET'], paths: ['/@a%2fb'], encoded_slash: true }],
  });
  t.equal(request('GET', '/a/*'), undefined, 'a star would let other paths pass');
  t.equal(request('GET', `/${'x'.repeat(1023)}`), undefined, 'a path that may have been cut');
});

t.test('rules and secrets as text, with all that bounds them', (t) => {
  const web = { host: 'b.example', protocol: 'tls' as const, ports: [443] };
  for (const [rule, text] of [
    [web, 'b.example tls 443'],
    [{ ...web, tls: 'inspect' }, 'b.example tls 443 · every request is read'],
    [{ ...web, tls: 'inspect', methods: ['GET'], paths: ['/a/**'] }, 'b.example tls 443 · GET · /a/**'],
    [
      { ...web, tls: 'inspect', paths: ['/a'], websocket: true, encoded_slash: true },
      'b.example tls 443 · /a · WebSocket · with %2F',
    ],
    [{ ...web, ech: 'refuse' }, 'b.example tls 443 · no encrypted name'],
    [{ cidr: '192.0.2.0/24', protocol: 'udp', ports: ['9000-9010'] }, '192.0.2.0/24 udp 9000-9010'],
  ] as const)
    t.equal(describeRule(rule as never), text);
  const secret = { name: 'GH', hosts: ['b.example'], has_value: true };
  t.equal(
    describeSecret({ ...secret, in: ['bearer', { header: 'x-key' }, { query: 'key' }], ports: [8443] }),
    'b.example · ports 8443 · bearer, header x-key, query key',
  );
  const inject = { header: 'Authorization', format: 'Basic {base64:u:{}}' };
  t.equal(
    describeSecret({ ...secret, inject, plain_http: true }),
    'b.example · adds the header Authorization · also without TLS',
  );
  t.end();
});

t.test('snapshots and sandboxes as trees', async (t) => {
  const snapshot = (id: string, parent_snapshot_id?: string) =>
    ({
      id,
      source_id: 'sbx_0',
      ...(parent_snapshot_id && { parent_snapshot_id }),
    }) as unknown as SnapshotInfo;
  const sandbox = (id: string, parent_snapshot_id?: string) =>
    ({ id, state: 'running', ...(parent_snapshot_id && { parent_snapshot_id }) }) as unknown as SandboxInfo;
  const show = ({ kind, id, below }: Node): string =>
    `${kind} ${id}${below.length ? ` (${below.map(show).join(', ')})` : ''}`;
  const forest = toForest(
    [snapshot('a'), snapshot('b', 'a'), snapshot('d', 'gone')],
    [sandbox('1', 'b'), sandbox('2', 'a'), sandbox('3'), sandbox('4', 'gone')],
  );
  t.same(forest.map(show), [
    'deleted gone (snapshot d, sandbox 4)',
    'snapshot a (snapshot b (sandbox 1), sandbox 2)',
  ]);
  t.same(toForest([snapshot('x', 'y'), snapshot('y', 'x')], []), [], 'a circle has no top');
});
