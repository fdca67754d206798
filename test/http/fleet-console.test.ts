// The console of a gateway, in headless Chromium: sandboxes of all hosts, and the hosts.
import t from 'tap';
import { testConsole } from '../support/console.ts';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { assertSound } from './console-axe.ts';
import { openConsole } from './console-daemon.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('the page is the gateway’s own, and shows sandboxes of all hosts, and the hosts', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const { authenticator } = keyring;
  await fleet.host('h0', { authenticator });
  const h1 = await fleet.host('h1', { authenticator });
  await fleet.ready(2);
  const { url } = await fleet.gateway({ console: await testConsole() });
  const authorization = `Bearer ${key}`;
  for (const name of ['alpha', 'beta'])
    t.equal((await ask(url, 'POST', '/sandboxes', { name }, { authorization })).status, 201);

  const page = await fetch(`${url}/`, { headers: { accept: 'text/html' }, redirect: 'manual' });
  t.equal(page.status, 302);
  t.equal(page.headers.get('location'), 'console');
  const html = await fetch(`${url}/console`);
  t.match(html.headers.get('content-security-policy'), /^default-src 'none'; script-src 'self'/);
  const etag = html.headers.get('etag') ?? '';
  t.equal((await fetch(`${url}/console`, { headers: { 'if-none-match': etag } })).status, 304);
  t.match(await ask(url, 'GET', '/console/nothing.js'), { status: 404 });

  const app = await openConsole(t, url);
  await app.shows('This daemon has keys');
  await app.fill('Key', key);
  await app.click('Open');
  await app.shows('alpha');
  await app.shows('beta');
  await app.shows('Live');
  await app.open('#/host');
  await app.shows('2 hosts');
  await assertSound(t, app, 'the hosts');
  const made = await ask(url, 'POST', '/sandboxes', { name: 'gamma' }, { authorization });
  await app.open('#/sandboxes');
  await app.shows('gamma');
  await app.open(`#/sandboxes/${made.body.id}`);
  await app.shows('Properties');
  await h1.crash();
  await app.open('#/host');
  await app.shows('2 hosts, 1 unreachable');
  await app.open('#/events');
  await app.shows('host-unreachable');
  await app.open('#/sandboxes');
  await app.shows('h1 does not answer: sandboxes there are not in this list');
});

t.test('a gateway without the files says so', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  t.match(await ask(url, 'GET', '/console'), { status: 501, body: { code: 'unsupported' } });
});
