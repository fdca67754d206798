// What is said of a request by its head alone: whose name it calls, which page it is from, what is read in two ways.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { MAX_HEADERS } from '@sandboxd/api';
import t from 'tap';
import { toErrorAnswer } from '../../../../../host-agent/src/http/errors.ts';
import {
  type AllowedHost,
  Cors,
  findRefusal,
  HostNames,
} from '../../../../../host-agent/src/http/server/request-check.ts';
import { parseAuthority } from '../../../../../host-agent/src/lib/authority.ts';

type Head = {
  method?: string;
  headers?: readonly (readonly [string, string])[];
  url?: string;
  httpVersion?: string;
  port?: number | undefined;
};

/** As Node gives a request: of two headers of a name what it makes of them, and all as they came. */
function request({
  method = 'GET',
  headers = [['Host', 'localhost:8080']],
  url,
  httpVersion = '1.1',
  ...rest
}: Head) {
  const localPort = 'port' in rest ? rest.port : 8080;
  return {
    method,
    rawHeaders: headers.flat(),
    headers: Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
    httpVersion,
    ...(url !== undefined && { url }),
    socket: { localAddress: '127.0.0.1', localPort },
  } as unknown as IncomingMessage;
}

const CORS = new Cors(['https://app.example']);

/** Its status and what is said, or nothing. */
function refusal(head: Head): string {
  const error = findRefusal(request(head), new HostNames([]), CORS);
  if (error === undefined) return '';
  return `${toErrorAnswer(error, 'r').status} ${error.message}`;
}

t.test('of the names that a request calls each must be the daemon’s', async (t) => {
  const host = (value: string) => ['HOST', value] as const;
  t.equal(refusal({}), '');
  t.equal(refusal({ headers: [host('127.0.0.1:8080')], url: '/x?a=http://evil/' }), '');
  t.equal(refusal({ headers: [host('localhost:8080')], url: 'http://localhost:8080/x' }), '');
  t.equal(refusal({ headers: [['X', 'host'], host('localhost:8080')] }), '', 'a value is no name');
  t.equal(refusal({ headers: [], httpVersion: '1.0' }), '', 'it is older than the header');
  for (const [head, said] of [
    [
      { headers: [host('localhost:8080'), host('localhost:8080')] },
      /^400 .*there are 2 host headers; send one$/,
    ],
    [{ headers: [] }, /^400 .*the host header is missing$/],
    [{ headers: [host('a b')] }, /^400 .*its host is invalid$/],
    [{ headers: [host('')] }, /^400 .*its host is invalid$/],
    [
      { headers: [host('evil.example')] },
      /^403 host "evil.example" is not a name of this daemon; use localhost:8080, or/,
    ],
    [
      { headers: [host('evil.example')], port: undefined },
      /^403 host "evil.example" is not a name of this daemon; use localhost, or/,
    ],
    [{ url: 'HTTP://evil.example/x' }, /^403 host "evil.example"/],
    [{ url: 'h2+a-b.c://evil.example?x' }, /^403 host "evil.example"/],
    [{ url: 'http://evil.example#x' }, /^403 host "evil.example"/],
    [{ url: 'http:///x' }, /^400 .*its host is invalid$/],
    [{ headers: [], httpVersion: '1.0', url: 'http://evil.example/' }, /^403/],
  ] as const)
    t.match(refusal(head), said, JSON.stringify(head));
  t.equal(refusal({ url: '/http://evil.example/' }), '');
});

t.test('two keys, too many headers and foreign pages are refused', async (t) => {
  const host = ['Host', 'localhost:8080'] as const;
  const key = ['Authorization', 'Bearer x'] as const;
  t.equal(refusal({ headers: [host, key] }), '');
  t.match(refusal({ headers: [host, key, ['authorization', 'y']] }), /^400 .*several authorization headers/);
  const many = Array.from({ length: MAX_HEADERS - 1 }, (_, at) => [`X-${at}`, 'authorization'] as const);
  t.equal(refusal({ headers: [host, ...many] }), '');
  t.match(refusal({ headers: [host, ...many, ['A', 'b']] }), /^431 there are 129 headers; send at most 128$/);
  for (const origin of ['http://localhost:8080', 'http://127.0.0.1:8080', 'https://app.example'])
    t.equal(refusal({ headers: [host, ['Origin', origin]] }), '');
  for (const origin of ['https://localhost:8080', 'http://localhost', 'https://app.example.org', 'null', ''])
    t.match(
      refusal({ headers: [host, ['Origin', origin]] }),
      new RegExp(`^403 origin ${JSON.stringify(origin)} is foreign to this daemon`),
    );
});

t.test('a body that is coded in another way than chunks is refused', async (t) => {
  const coded = (coding: string, httpVersion = '1.1') =>
    refusal({
      headers: [
        ['Host', 'localhost:8080'],
        ['Transfer-Encoding', coding],
      ],
      httpVersion,
    });
  t.equal(coded('chunked'), '');
  t.equal(coded('Chunked'), '');
  t.match(coded('gzip, chunked'), /^400 .*transfer-encoding "gzip, chunked" is not known; use chunked$/);
  t.match(coded('chunked', '1.0'), /^400 .*http\/1.0 has no transfer-encoding$/);
});

const allow = (scheme: 'http' | 'https', text: string): AllowedHost => ({
  scheme,
  at: parseAuthority(text)!,
});
const at = (localAddress: string | undefined, localPort: number | undefined = 8080) =>
  ({ localAddress, localPort }) as { localAddress: string; localPort: number };

t.test('names of the daemon that need no setting', async (t) => {
  const names = new HostNames([]);
  const local = at('::ffff:192.0.2.1');
  for (const text of ['localhost:8080', '127.0.0.1:8080', '127.9.9.9:8080', '[::1]:8080', '192.0.2.1:8080'])
    t.ok(names.hasHost(text, local), text);
  t.ok(names.hasHost('[2001:db8::1]:8080', at('2001:db8:0:0::1')));
  t.ok(names.hasHost('LOCALHOST.:8080', local));
  for (const text of [
    'localhost',
    'localhost:80',
    '128.0.0.1:8080',
    '126.255.255.255:8080',
    '[::2]:8080',
    '192.0.2.2:8080',
    'x-127.0.0.1:8080',
    'a@localhost:8080',
    '[2001:db8::1]:8080',
  ])
    t.notOk(names.hasHost(text, local), text);
  t.ok(names.hasHost('localhost', at('127.0.0.1', 80)), 'the port of the scheme goes without saying');
  t.notOk(names.hasHost('localhost', at('127.0.0.1', 443)));
  t.ok(new HostNames([], 'https').hasHost('localhost', at('127.0.0.1', 443)));
});

t.test('a socket in the file system has no port, and is the origin of no page', async (t) => {
  const names = new HostNames([allow('http', 'proxy.example')]);
  const local = { localAddress: undefined, localPort: undefined } as unknown as ReturnType<typeof at>;
  for (const text of ['localhost', 'localhost:1', '127.0.0.1', 'proxy.example'])
    t.ok(names.hasHost(text, local));
  for (const text of ['x.example', 'proxy.example:81', '::1']) t.notOk(names.hasHost(text, local), text);
  t.notOk(names.hasOrigin('http://localhost', local));
  t.notOk(names.hasOrigin('http://localhost:80', local));
  t.ok(names.hasOrigin('http://proxy.example', local));
});

t.test('what the operator allows has the scheme’s port, the daemon’s, or its own', async (t) => {
  const names = new HostNames([allow('https', 'api.example'), allow('http', 'other.example:90')]);
  const local = at('192.0.2.1');
  for (const text of ['api.example', 'api.example:443', 'api.example:8080', 'other.example:90'])
    t.ok(names.hasHost(text, local), text);
  for (const text of ['api.example:80', 'other.example', 'other.example:8080', 'example', 'x.api.example'])
    t.notOk(names.hasHost(text, local), text);
  for (const text of ['https://api.example', 'https://api.example:8080', 'http://other.example:90'])
    t.ok(names.hasOrigin(text, local), text);
  for (const text of ['http://api.example:8080', 'https://other.example:90', 'x', 'ftp://api.example'])
    t.notOk(names.hasOrigin(text, local), text);
  t.ok(names.hasOrigin('http://192.0.2.1:8080', local), 'its own pages');
  t.notOk(names.hasOrigin('https://192.0.2.1:8080', local), 'it speaks no TLS');
  t.notOk(names.hasOrigin('http://192.0.2.1', local));
  t.ok(new HostNames([], 'https').hasOrigin('https://192.0.2.1:8080', local));
});

function askAsPage(origins: readonly string[], method: string, headers: Record<string, string>) {
  const said: Record<string, unknown> = {};
  let status: number | undefined;
  let isEnded = false;
  const response = {
    setHeader: (name: string, value: string) => Object.assign(said, { [name]: value }),
    writeHead: (code: number, more: object) => {
      status = code;
      Object.assign(said, more);
    },
    end: () => {
      isEnded = true;
    },
  } as unknown as ServerResponse;
  const isAnswered = new Cors(origins).serve({ method, headers } as unknown as IncomingMessage, response);
  return { isAnswered, said, status, isEnded };
}

t.test('a preflight gets what an allowed origin may request', async (t) => {
  const asks = { 'access-control-request-method': 'PUT' };
  const origin = 'https://app.example';
  const silent = { isAnswered: false, status: undefined, isEnded: false };
  t.same(askAsPage([], 'OPTIONS', { origin, ...asks }), { ...silent, said: {} });
  t.same(askAsPage([origin], 'GET', {}), { ...silent, said: { Vary: 'Origin' } });
  t.same(askAsPage([origin], 'OPTIONS', { origin: 'https://x', ...asks }), {
    ...silent,
    said: { Vary: 'Origin' },
  });
  const shown = askAsPage([origin], 'GET', { origin, ...asks });
  t.match(shown, {
    ...silent,
    said: {
      Vary: 'Origin',
      'Access-Control-Allow-Origin': origin,
      'Access-Control-Expose-Headers': /^X-Request-Id, Retry-After, WWW-Authenticate, Allow, .*X-File-Size/,
    },
  });
  t.notMatch(shown.said, { 'Access-Control-Allow-Methods': /./ });
  t.equal(askAsPage([origin], 'OPTIONS', { origin }).isAnswered, false, 'any client may ask for OPTIONS');
  t.match(askAsPage([origin], 'OPTIONS', { origin, ...asks }), {
    isAnswered: true,
    isEnded: true,
    status: 204,
    said: {
      'Access-Control-Allow-Origin': origin,
      'Access-Control-Allow-Headers': /^Authorization, Content-Type, Prefer, X-Request-Id, .*If-Match/,
      'Access-Control-Max-Age': 7200,
    },
  });
  const methods = askAsPage([origin], 'OPTIONS', { origin, ...asks }).said['Access-Control-Allow-Methods'];
  t.same(String(methods).split(', ').sort(), ['DELETE', 'GET', 'HEAD', 'PATCH', 'POST', 'PUT']);
});

t.test('a cross-site request without an Origin is refused by its Sec-Fetch headers', async (t) => {
  const asked = (site: string, mode: string, dest: string, method = 'GET') =>
    refusal({
      method,
      headers: [
        ['Host', 'localhost:8080'],
        ['Sec-Fetch-Site', site],
        ['Sec-Fetch-Mode', mode],
        ['Sec-Fetch-Dest', dest],
      ],
    });
  const foreign = /^403 a page of another site .*--cors-origin$/;
  for (const site of ['cross-site', 'same-site']) {
    t.match(asked(site, 'no-cors', 'script'), foreign, 'it would run a guest’s file as its script');
    t.match(asked(site, 'no-cors', 'image'), foreign);
    t.match(asked(site, 'navigate', 'iframe'), foreign, 'a frame');
    t.match(asked(site, 'navigate', 'document', 'POST'), foreign, 'a form');
    t.match(asked(site, 'no-cors', 'document'), foreign);
    t.equal(asked(site, 'navigate', 'document'), '', 'a link that somebody follows');
    t.equal(asked(site, 'navigate', 'document', 'HEAD'), '');
  }
  t.equal(asked('same-origin', 'no-cors', 'script'), '', 'the daemon’s own page');
  t.equal(asked('none', 'navigate', 'document'), '', 'an address that was typed');
  t.equal(
    refusal({
      headers: [
        ['Host', 'localhost:8080'],
        ['Origin', 'https://app.example'],
        ['Sec-Fetch-Site', 'cross-site'],
        ['Sec-Fetch-Mode', 'cors'],
      ],
    }),
    '',
    'an origin that the operator allowed',
  );
});
