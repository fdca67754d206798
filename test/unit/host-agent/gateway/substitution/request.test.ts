// Placeholders in requests become values only where every condition holds.
import t from 'tap';
import {
  type BoundSecret,
  type Destination,
  type RequestHead,
  substituteBody,
  substituteHead,
  withReadableAnswer,
} from '../../../../../host-agent/src/gateway/substitution/index.ts';

const PLACEHOLDER = `sbxs_github_token_${'a'.repeat(26)}`;
const VALUE = 'ghp_$&/+secret"value';
const OK: Destination = { name: 'api.github.com', port: 443, isVerifiedTls: true, allowsPlainHttp: false };

function bind(secret: Partial<BoundSecret> = {}): BoundSecret {
  return {
    ...{ name: 'GITHUB_TOKEN', placeholder: PLACEHOLDER, value: Buffer.from(VALUE) },
    ...{ hosts: ['api.github.com'], forms: ['bearer', 'basic', 'header'], plainHttp: false },
    ...secret,
  };
}

function head(headers: RequestHead['headers'], target = '/'): RequestHead {
  return { method: 'GET', target, headers };
}

function run(request: RequestHead, secrets = [bind()], destination = OK) {
  const result = substituteHead(request, secrets, destination);
  if (result.kind === 'refused') throw new Error(`${result.status}: ${result.reason}`);
  return result;
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

t.test('a bearer token, a header and a cookie get the value, whatever it has', async (t) => {
  const result = run(
    head([
      ['Authorization', `Bearer ${PLACEHOLDER}`],
      ['X-Api-Key', PLACEHOLDER],
      ['Cookie', `a=1; t=${PLACEHOLDER}; u=${PLACEHOLDER}`],
      ['X-Other', 'stays'],
    ]),
  );
  t.strictSame(result.head.headers, [
    ['Authorization', `Bearer ${VALUE}`],
    ['X-Api-Key', VALUE],
    ['Cookie', `a=1; t=${VALUE}; u=${VALUE}`],
    ['X-Other', 'stays'],
  ]);
  t.strictSame(result.uses, [
    { secret: 'GITHUB_TOKEN', form: 'bearer' },
    { secret: 'GITHUB_TOKEN', form: 'header' },
  ]);
});

t.test('Basic credentials are decoded and encoded again, with and without padding', async (t) => {
  for (const pair of [`user:${PLACEHOLDER}`, `${PLACEHOLDER}:`, `x-token:${PLACEHOLDER}`]) {
    for (const encoded of [base64(pair), base64(pair).replace(/=*$/, '')]) {
      const { head: sent, uses, pairs } = run(head([['authorization', `Basic ${encoded}`]]));
      const expected = base64(pair.replace(PLACEHOLDER, () => VALUE));
      t.strictSame(sent.headers, [['authorization', `Basic ${expected}`]]);
      t.strictSame(uses, [{ secret: 'GITHUB_TOKEN', form: 'basic' }]);
      t.strictSame(pairs, [expected], 'for the redaction');
    }
  }
  const untouched = [['Authorization', `Basic ${base64('user:password')}`]] as const;
  t.strictSame(run(head(untouched)).head.headers, untouched);
});

t.test('a form that the secret does not allow is sent as it is, and reported', async (t) => {
  const cases: [BoundSecret['forms'], [string, string]][] = [
    [['bearer'], ['Authorization', `Basic ${base64(`user:${PLACEHOLDER}`)}`]],
    [['bearer'], ['Authorization', `Token ${PLACEHOLDER}`]],
    [['basic'], ['Authorization', `Bearer ${PLACEHOLDER}`]],
    [[{ header: 'x-api-key' }], ['X-Other', PLACEHOLDER]],
    [
      ['body', { query: 'key' }],
      ['X-Api-Key', PLACEHOLDER],
    ],
  ];
  for (const [forms, header] of cases) {
    const result = run(head([header]), [bind({ forms })]);
    t.strictSame(result.head.headers, [header]);
    t.strictSame([result.uses, result.unreplaced], [[], ['GITHUB_TOKEN']]);
  }
  const named = run(head([['X-Api-Key', PLACEHOLDER]]), [bind({ forms: [{ header: 'x-api-key' }] })]);
  t.strictSame(named.head.headers, [['X-Api-Key', VALUE]]);
});

t.test('headers that frame a request or name its receiver never get one', async (t) => {
  for (const name of ['Host', 'Connection', 'Transfer-Encoding', 'Upgrade', 'TE', 'Trailer', 'Expect'])
    t.strictSame(run(head([[name, PLACEHOLDER]])).head.headers, [[name, PLACEHOLDER]]);
});

t.test('a parameter gets the value percent-encoded; the path never does', async (t) => {
  const secrets = [bind({ forms: [{ query: 'api key' }] })];
  const encoded = encodeURIComponent(VALUE);
  const sent = run(head([], `/a?x=1&api%20key=${PLACEHOLDER}&api+key=${PLACEHOLDER}&y`), secrets);
  t.equal(sent.head.target, `/a?x=1&api%20key=${encoded}&api+key=${encoded}&y`);
  t.strictSame(sent.uses, [{ secret: 'GITHUB_TOKEN', form: 'query' }]);
  for (const target of [
    `/${PLACEHOLDER}`,
    `/a?other=${PLACEHOLDER}`,
    `/a?${PLACEHOLDER}`,
    `/?${PLACEHOLDER}=1`,
  ]) {
    const result = run(head([], target), secrets);
    t.equal(result.head.target, target);
    t.strictSame([result.uses, result.unreplaced], [[], ['GITHUB_TOKEN']]);
  }
  const coded = PLACEHOLDER.replace('s', '%73');
  t.equal(run(head([], `/?api+key=${coded}`), secrets).head.target, `/?api+key=${coded}`, 'never half');
  t.equal(run(head([], '/?%zz=1&&='), secrets).head.target, '/?%zz=1&&=');
});

t.test('towards another host or port, headers and parameters are refused and never sent', async (t) => {
  const elsewhere = [
    { ...OK, name: 'evil.test' },
    { ...OK, name: 'api.github.com.evil.test' },
    { ...OK, name: 'x.api.github.com' },
    { ...OK, port: 8443 },
  ];
  const requests = [
    head([['X-Any', PLACEHOLDER]]),
    head([['Authorization', `Bearer ${PLACEHOLDER}`]]),
    head([['Authorization', `Basic ${base64(`user:${PLACEHOLDER}`)}`]]),
    head([], `/?q=${PLACEHOLDER}`),
    head([], `/?${PLACEHOLDER}`),
  ];
  for (const destination of elsewhere)
    for (const request of requests) {
      const result = substituteHead(request, [bind({ ports: [443] })], destination);
      t.match(result, { kind: 'refused', status: 403, secret: 'GITHUB_TOKEN' });
      t.notMatch(JSON.stringify(result), VALUE);
    }
});

t.test('wildcards of hosts match as those of rules do', async (t) => {
  const passes = (hosts: string[], name: string) =>
    substituteHead(head([['X-A', PLACEHOLDER]]), [bind({ hosts })], { ...OK, name }).kind === 'pass';
  t.ok(passes(['*.github.com'], 'api.github.com'));
  t.notOk(passes(['*.github.com'], 'a.api.github.com'));
  t.notOk(passes(['*.github.com'], 'github.com'));
  t.notOk(passes(['*.github.com'], 'evilgithub.com'));
  t.ok(passes(['**.github.com'], 'a.api.github.com'));
  t.notOk(passes(['**.github.com'], 'github.com'));
});

t.test('without TLS it stays a placeholder, unless secret and operator permit more', async (t) => {
  const plain = { ...OK, port: 80, isVerifiedTls: false };
  const request = head([['X-A', PLACEHOLDER]]);
  for (const [plainHttp, allowsPlainHttp] of [
    [false, false],
    [true, false],
    [false, true],
  ] as const) {
    const result = run(request, [bind({ plainHttp })], { ...plain, allowsPlainHttp });
    t.strictSame([result.head.headers, result.unreplaced], [request.headers, ['GITHUB_TOKEN']]);
  }
  const result = run(request, [bind({ plainHttp: true })], { ...plain, allowsPlainHttp: true });
  t.strictSame(result.head.headers, [['X-A', VALUE]]);
});

t.test('a guess, and the placeholder of another sandbox, are text', async (t) => {
  const other = PLACEHOLDER.replace(/a$/, 'b');
  const request = head(
    [
      ['Authorization', `Bearer ${other}`],
      ['X-A', PLACEHOLDER.slice(0, -1)],
    ],
    `/?k=${other}`,
  );
  const result = run(request);
  t.strictSame(result, { kind: 'pass', head: request, uses: [], unreplaced: [], pairs: [] });
});

t.test('a secret without a value refuses what would need it', async (t) => {
  const result = substituteHead(head([['X-A', PLACEHOLDER]]), [bind({ value: null })], OK);
  t.match(result, { kind: 'refused', status: 403, reason: /has no value here/ });
  const inject = { header: 'Authorization', format: '{}' };
  t.match(substituteHead(head([]), [bind({ value: null, placeholder: null, inject })], OK), { status: 403 });
  t.equal(substituteHead(head([]), [bind({ value: null })], OK).kind, 'pass');
});

t.test('an injected header replaces those of the guest', async (t) => {
  const inject = { header: 'Authorization', format: 'Basic {base64:user:{}}' };
  const secrets = [bind({ placeholder: null, forms: [], inject })];
  const request = head([
    ['AUTHORIZATION', 'Bearer own'],
    ['authorization', 'x'],
    ['X-A', '1'],
  ]);
  const result = run(request, secrets);
  const pair = base64(`user:${VALUE}`);
  t.strictSame(result.head.headers, [
    ['X-A', '1'],
    ['Authorization', `Basic ${pair}`],
  ]);
  t.strictSame(result.uses, [{ secret: 'GITHUB_TOKEN', form: 'inject' }]);
  t.strictSame(result.pairs, [pair]);
  t.strictSame(run(request, secrets, { ...OK, name: 'other.test' }).head.headers, request.headers);
  const plain = [bind({ placeholder: null, forms: [], inject: { header: 'X-Key', format: 'key={};v=1' } })];
  t.strictSame(run(head([]), plain).head.headers, [['X-Key', `key=${VALUE};v=1`]]);
});

t.test('several secrets in one header are replaced each by its own placeholder', async (t) => {
  const other = bind({
    name: 'OTHER',
    placeholder: `sbxs_other_${'b'.repeat(26)}`,
    value: Buffer.from('other-value'),
  });
  const result = run(head([['X-A', `${PLACEHOLDER},${other.placeholder}`]]), [bind(), other]);
  t.strictSame(result.head.headers, [['X-A', `${VALUE},other-value`]]);
  t.equal(result.uses.length, 2);
});

t.test('a request with a secret cannot ask for its own echo', async (t) => {
  const headers = [['Authorization', `Bearer ${PLACEHOLDER}`]] as const;
  for (const method of ['TRACE', 'TRACK'])
    t.match(substituteHead({ method, target: '/', headers }, [bind()], OK), { kind: 'refused', status: 403 });
  t.match(substituteHead(head([...headers, ['Max-Forwards', '0']]), [bind()], OK), { status: 403 });
  t.equal(substituteHead(head([['Max-Forwards', '0']]), [bind()], OK).kind, 'pass');
});

t.test('many placeholders of a large value do not become a larger head', async (t) => {
  const secrets = [bind({ value: Buffer.alloc(65_536, 'v') })];
  t.match(substituteHead(head([['X-A', PLACEHOLDER.repeat(1000)]]), secrets, OK), {
    kind: 'refused',
    status: 431,
  });
  t.match(substituteHead(head([['X-A', PLACEHOLDER.repeat(3)]]), secrets, OK), { kind: 'pass' });
});

t.test('what would make the answer unreadable is removed', async (t) => {
  const headers = withReadableAnswer([
    ['Accept-Encoding', 'gzip'],
    ['Range', 'bytes=0-1'],
    ['IF-RANGE', 'x'],
    ['Sec-WebSocket-Extensions', 'permessage-deflate'],
    ['X-A', '1'],
  ]);
  t.strictSame(headers, [
    ['X-A', '1'],
    ['accept-encoding', 'identity'],
  ]);
});

t.test('a body gets the value in its own encoding, over any borders of chunks', async (t) => {
  const secrets = [bind({ forms: ['body'] })];
  const json = JSON.stringify({ token: VALUE, n: 1 });
  const cases: [string | undefined, string, string][] = [
    ['application/json; charset=utf-8', JSON.stringify({ token: PLACEHOLDER, n: 1 }), json],
    ['application/vnd.api+json', `["${PLACEHOLDER}"]`, JSON.stringify([VALUE])],
    ['application/x-www-form-urlencoded', `a=1&t=${PLACEHOLDER}`, `a=1&t=${encodeURIComponent(VALUE)}`],
    ['text/plain', `${PLACEHOLDER}${PLACEHOLDER}`, VALUE + VALUE],
    [undefined, `x${PLACEHOLDER}y${PLACEHOLDER.slice(0, 9)}`, `x${VALUE}y${PLACEHOLDER.slice(0, 9)}`],
  ];
  for (const [type, sent, expected] of cases)
    for (const size of [1, 7, 4096]) {
      const body = substituteBody(type === undefined ? [] : [['Content-Type', type]], secrets, OK);
      if (body === undefined) throw new Error('it is not replaced');
      const parts: Buffer[] = [];
      for (let at = 0; at < sent.length; at += size)
        parts.push(body.replacer.push(Buffer.from(sent.slice(at, at + size))));
      parts.push(body.replacer.end());
      t.equal(Buffer.concat(parts).toString(), expected, `${type} in chunks of ${size}`);
      t.strictSame(body.uses(), [{ secret: 'GITHUB_TOKEN', form: 'body' }]);
      t.equal(body.keepsLength, false);
    }
});

t.test('a body that others depend on, or that is for another host, stays as it is', async (t) => {
  const secrets = [bind({ forms: ['body'] })];
  const headers = ['gzip', 'br', 'zstd', 'identity, gzip'].map(
    (coding) => ['Content-Encoding', coding] as const,
  );
  for (const header of [
    ...headers,
    ['Content-MD5', 'x'] as const,
    ['Digest', 'x'] as const,
    ['Content-Type', 'multipart/form-data; boundary=x'] as const,
  ])
    t.equal(substituteBody([header], secrets, OK), undefined, header.join(': '));
  t.equal(substituteBody([], secrets, { ...OK, name: 'evil.test' }), undefined);
  t.equal(substituteBody([], secrets, { ...OK, isVerifiedTls: false }), undefined);
  t.equal(substituteBody([], [bind()], OK), undefined, 'only where the form is named');
  t.ok(substituteBody([['Content-Encoding', 'identity']], secrets, OK));
});

t.test('a body keeps its length where placeholder and value have the same', async (t) => {
  const value = Buffer.alloc(PLACEHOLDER.length, 'v');
  t.equal(substituteBody([], [bind({ forms: ['body'], value })], OK)?.keepsLength, true);
});
