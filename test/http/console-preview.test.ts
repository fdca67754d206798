// The page of a port within the console: it is shown, and reaches nothing of the console, whatever it tries.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { assertSound } from './console-axe.ts';
import { openConsole, serveConsole } from './console-daemon.ts';
import { ask } from './support.ts';

t.setTimeout(180_000);

/** What a hostile page tries; each attempt reports what it reached. */
const ATTEMPTS = `
const attempts = {
  parentDocument: () => parent.document.title,
  parentLocation: () => parent.location.href,
  parentStorage: () => parent.sessionStorage.getItem('sandboxd-key'),
  frameElement: () => frameElement.outerHTML,
  popup: () => open('/popup').closed,
  top: () => { top.location = origin + '/stolen'; },
  topTarget: () => { const a = document.createElement('a'); a.href = '/stolen'; a.target = '_top'; document.body.append(a); a.click(); },
  message: () => { parent.postMessage({ key: 1, type: 'navigate', hash: '#/stolen' }, '*'); },
  dialog: () => { alert('1'); },
  clipboard: () => { navigator.clipboard.writeText('x').catch(() => 0); },
  full: () => { document.documentElement.requestFullscreen().catch(() => 0); },
};
const reached = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try { reached[name] = String(attempt()); } catch (error) { reached[name] = error.name; }
}
fetch('/report', { method: 'POST', body: JSON.stringify(reached) });
`;

async function serveGuest(t: Test) {
  const reports: string[] = [];
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    if (request.method === 'POST') {
      let body = '';
      request.on('data', (part) => {
        body += part;
      });
      request.on('end', () => void reports.push(body));
    }
    response.setHeader('content-type', request.url === '/evil.js' ? 'text/javascript' : 'text/html');
    const page = `<!doctype html><title>evil</title><h1>the page of the guest</h1><script src="/evil.js"></script>`;
    response.end(request.url === '/evil.js' ? ATTEMPTS : page);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => server.close());
  server.unref();
  return { port: (server.address() as AddressInfo).port, reports, asked };
}

t.test('a preview shows the page of a public port, which stays in its frame', async (t) => {
  const guest = await serveGuest(t);
  const source = `http://*.localhost:${guest.port}`;
  const portLinks = {
    urlOf: (id: string, port: number) =>
      new URL(`http://${port}-${id.replace('_', '-')}.localhost:${guest.port}/`),
    source: () => source,
    create: async () => ({
      token: 'sbl_token',
      link: { id: 'link_0123456789abc', createdAtMs: 0, expiresAtMs: 1e13 },
    }),
    list: () => [],
    delete: async () => undefined,
  };
  const { url, daemon, app: http } = await serveConsole(t, { portLinks: portLinks as never });
  const policy = (await ask(http, 'GET', '/console')).headers.get('content-security-policy') ?? '';
  t.match(policy, new RegExp(`; frame-src ${source.replaceAll('*', '\\*')}$`));
  const { id } = await daemon.manager.create({});
  const app = await openConsole(t, url, `#/sandboxes/${id}`);
  const { page } = app;
  await page.emulate({ width: 1300, height: 900 });
  await app.fill('Port to open', '99999');
  await app.click('Open');
  await app.shows('A port is a number from 1 to 65535');
  await app.fill('Port to open', '3000');
  await app.click('Open');
  await app.shows('private');
  await app.click('Make a link');
  await app.shows('with a link for an hour');
  await app.until(
    `document.querySelector('a[href*="sandbox_link=sbl_token"][rel~=noopener]') !== null`,
    'the link',
  );
  t.notMatch(await app.text(), 'sbl_token');
  await app.click('Preview');
  await app.shows('a private port does not answer in a frame');
  t.same(guest.asked, [], 'the private port is not asked');
  await assertSound(t, app, 'the question');
  await app.click('Make it public');
  await app.until(`document.querySelector('iframe') !== null`, 'the frame');
  await until(() => guest.reports.length > 0, 'the report of the page');
  const nothing = 'SecurityError';
  t.match(JSON.parse(guest.reports[0] ?? '{}'), {
    ...{ parentDocument: nothing, parentLocation: nothing, parentStorage: nothing, frameElement: /Error/ },
    popup: 'TypeError',
    top: nothing,
  });
  await page.evaluate('new Promise((resolve) => setTimeout(resolve, 500))');
  t.match(await page.evaluate('location.href'), new RegExp(`^${url}/console#/sandboxes/${id}`));
  t.notOk(guest.asked.some((path) => path === '/stolen' || path === '/popup'));
  t.equal(
    await page.evaluate(`document.querySelector('iframe').sandbox.value`),
    'allow-scripts allow-forms allow-same-origin',
  );

  // No other page can be shown, also not by a script of the console's origin.
  await page.evaluate(`document.querySelector('iframe').src = '${url}/docs'; 0`);
  await until(() => page.problems.some((problem) => problem.includes('frame-src')), 'the refusal');
  await app.click('Close the preview');
  await app.until(`document.querySelector('iframe') === null`, 'the end of the preview');
});

t.test('without an ingress there is no preview, and no frame', async (t) => {
  const { url, daemon, app: http } = await serveConsole(t);
  t.notMatch((await ask(http, 'GET', '/console')).headers.get('content-security-policy'), 'frame-src');
  const { id } = await daemon.manager.create({});
  const app = await openConsole(t, url, `#/sandboxes/${id}`);
  await app.fill('Port to open', '3000');
  await app.click('Open');
  await app.shows('no ingress');
  t.notMatch(await app.text(), 'Preview');
  t.same(app.page.problems, []);
});
