// The console's page and files as a browser gets them: without a key, compressed, confined by a policy.
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { bundleConsole, MAX_CONSOLE_BYTES } from '../../scripts/build-console.ts';
import { NO_CONSOLE, testConsole } from '../support/console.ts';
import { openKeyring } from './keyed.ts';
import { ask, makeApp } from './support.ts';

t.test('the page comes without a key, with a policy that permits only the daemon itself', async (t) => {
  const keyring = await openKeyring(t);
  await keyring.make();
  const { app } = makeApp({ console: await testConsole(), authenticator: keyring.authenticator });
  t.equal((await app.request('/sandboxes')).status, 401);
  const response = await app.request('/console');
  t.equal(response.status, 200);
  t.match(response.headers.get('content-type'), 'text/html');
  const policy = response.headers.get('content-security-policy') ?? '';
  for (const part of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "form-action 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
  ])
    t.ok(policy.includes(part), part);
  t.notMatch(policy, /unsafe|https?:|\*/);
  t.equal(response.headers.get('referrer-policy'), 'no-referrer');
  t.equal(response.headers.get('cross-origin-opener-policy'), 'same-origin');
  const page = await response.text();
  t.notMatch(page, /<style|<script>|\sstyle=|\son\w+=|https?:\/\//);
  const files = [...page.matchAll(/(?:src|href)="console\/([^"]+)"/g)].map(([, name = '']) => name);
  t.same(files.sort(), ['console.css', 'console.js', 'icon.svg']);
  for (const name of files) t.equal((await app.request(`/console/${name}`)).status, 200, name);
});

t.test('compressed for those who ask, and not sent again to those who have it', async (t) => {
  const { app } = makeApp({ console: await testConsole() });
  const plain = await app.request('/console/console.js');
  t.equal(plain.headers.get('content-encoding'), null);
  t.match(plain.headers.get('content-type'), 'text/javascript');
  const text = await plain.text();
  t.equal(await (await app.request('/console/console.js')).text(), text);
  const get = (headers: Record<string, string>) => app.request('/console/console.js', { headers });
  const compressed = await get({ 'accept-encoding': 'br, gzip' });
  t.equal(compressed.headers.get('content-encoding'), 'gzip');
  t.equal(gunzipSync(await compressed.arrayBuffer()).toString(), text);
  t.equal((await get({ 'accept-encoding': 'gzip;q=0' })).headers.get('content-encoding'), null);
  const etag = plain.headers.get('etag') ?? '';
  for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const again = await get({ 'if-none-match': tag });
    t.equal(again.status, 304, tag);
    t.equal(await again.text(), '');
  }
  t.equal((await get({ 'if-none-match': '"other"' })).status, 200);
  t.equal((await app.request('/console', { method: 'HEAD' })).status, 200);
});

t.test('no answer of the API stays in a browser, and a person finds the console', async (t) => {
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const { app, sandboxes } = makeApp({ console: await testConsole(), authenticator: keyring.authenticator });
  const { id } = sandboxes.add();
  const headers = { authorization: `Bearer ${key}` };
  for (const path of [
    ...['/healthz', '/sandboxes', `/sandboxes/${id}`, '/nothing', '/openapi.json', '/docs'],
    ...[`/sandboxes/${id}/files/content?path=/x`, `/sandboxes/${id}/files/stat?path=/x`],
  ])
    for (const each of [headers, { ...headers, 'if-none-match': '*' }, {}])
      t.equal((await app.request(path, { headers: each })).headers.get('cache-control'), 'no-store', path);

  const open = (path: string, accept: string, method = 'GET') =>
    app.request(path, { method, headers: { accept } });
  for (const [path, target] of [
    ['/', 'console'],
    ['/console/', '../console'],
  ] as const) {
    const response = await open(path, 'text/html,application/xhtml+xml,*/*;q=0.8');
    t.same([response.status, response.headers.get('location')], [302, target]);
    for (const accept of ['*/*', 'application/json']) t.equal((await open(path, accept)).status, 401);
    t.equal((await app.request(path, { headers })).status, 404);
    t.equal((await open(path, 'text/html', 'POST')).status, 401);
  }
  t.equal((await open('/sandboxes', 'text/html')).status, 401);
  const none = makeApp({ console: NO_CONSOLE });
  t.equal((await none.app.request('/', { headers: { accept: 'text/html' } })).status, 404);
});

t.test('other names, other methods, and a daemon without a console', async (t) => {
  const { app } = makeApp({ console: await testConsole() });
  for (const name of ['nothing.js', '..%2fconsole.js', '%2e%2e', '__proto__', 'constructor'])
    t.equal((await ask(app, 'GET', `/console/${name}`)).status, 404, name);
  t.equal((await ask(app, 'POST', '/console')).status, 405);
  const none = makeApp({ console: NO_CONSOLE });
  t.match(await ask(none.app, 'GET', '/console'), {
    status: 501,
    error: 'this build of the daemon has no console',
  });
});

t.test('all files together are within the limit, and name no other origin to load from', async (t) => {
  const files = await bundleConsole();
  const sizeBytes = [...files.values()].reduce((sum, { length }) => sum + length, 0);
  t.ok(sizeBytes < MAX_CONSOLE_BYTES, `${sizeBytes} bytes`);
  for (const [name, bytes] of files) {
    const text = gunzipSync(bytes).toString();
    t.notMatch(text, /\b(?:src|import|from|url\()\s*=?\s*["'(]?https?:\/\//, name);
    t.notMatch(text, /dangerouslySetInnerHTML=|document\.write\(|\beval\(|new Function\(/, name);
  }
});
