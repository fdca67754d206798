// The library in headless Chromium, in a page of another origin, over TLS and with a key.
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { bundleLibrary, script } from '../../support/browser-library.ts';
import { openPage } from '../../support/chromium.ts';
import { until } from '../../support/until.ts';
import { READ_ONLY } from '../keyed.ts';
import { serveSecurely } from '../secure.ts';

t.setTimeout(120_000);

/** Another origin: an empty page. */
async function serveElsewhere(t: Test): Promise<string> {
  const server = createServer((_, outgoing) => outgoing.setHeader('content-type', 'text/html').end(''));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What has a browser trust that certificate, as if its authority were installed there, and no other. */
function trust(certPath: string): string {
  const { publicKey } = new X509Certificate(readFileSync(certPath));
  const digest = createHash('sha256').update(publicKey.export({ type: 'spki', format: 'der' }));
  return `--ignore-certificate-errors-spki-list=${digest.digest('base64')}`;
}

t.test('a page that the operator let in uses sandboxes with its key', async (t) => {
  const library = await bundleLibrary(t);
  const origin = await serveElsewhere(t);
  const { url, id, key, keyring, sandboxes, issued } = await serveSecurely(t, { corsOrigins: [origin] });
  const page = await openPage(t, origin, [trust(issued.certPath)]);
  await page.evaluate(library);

  await t.test('requests, one-way commands, a terminal', async (t) => {
    const seen = await page.evaluate(
      script(`
        const client = new sandboxd.Client({ host: '${url}', apiKey: '${key}' });
        const made = await client.sandboxes.create();
        await made.delete();
        const sandbox = client.sandboxes.get('${id}');
        const terminal = sandbox.terminal({ size: { cols: 90, rows: 20 } });
        await terminal.write('hi');
        let text = '';
        for await (const chunk of terminal) {
          text += chunk.text;
          await terminal.closeStdin();
        }
        const missing = await client.sandboxes.get('sbx_0123456789abc').info().catch((reason) => reason);
        return { text, result: await terminal.result(), missing: [missing.name, missing.requestId] };`),
    );
    t.match(seen, { text: 'hi', result: { exit_code: 4 }, missing: ['NotFoundError', /^req_/] });
    t.same(sandboxes.execs[0]?.request.tty, { cols: 90, rows: 20 });
  });

  await t.test('keys that will not do, by requests and by WebSocket', async (t) => {
    const expired = await keyring.make({ expiresAtMs: Date.now() - 1000 });
    const narrow = await keyring.make({ policy: READ_ONLY });
    const seen = await page.evaluate(
      script(`
        const why = async (apiKey) => {
          const client = new sandboxd.Client({ host: '${url}', apiKey, retries: 0 });
          const sandbox = client.sandboxes.get('${id}');
          const work = [() => sandbox.exec(['x']).text(), () => sandbox.terminal().result()];
          const seen = [];
          for (const each of work) seen.push(await each().then(() => 'fine', (reason) => reason.name + ': ' + reason.message));
          return seen;
        };
        return { wrong: await why('sbk_wrong'), none: await why(''), expired: await why('${expired}'), narrow: await why('${narrow}') };`),
    );
    t.match(seen, {
      wrong: [/^UnauthorizedError: .*no such key/, /^UnauthorizedError: .*no such key/],
      none: [/^UnauthorizedError: no key/, /^UnauthorizedError: no key/],
      expired: [/^UnauthorizedError: .*expired/, /^UnauthorizedError: .*expired/],
      narrow: [/^ForbiddenError: .*exec/, /^ForbiddenError: .*exec/],
    });
  });

  await t.test('revoking a key ends an open terminal', async (t) => {
    const bad = await keyring.make({ name: 'bad' });
    const ended = page.evaluate(
      script(`
        const client = new sandboxd.Client({ host: '${url}', apiKey: '${bad}' });
        return client.sandboxes.get('${id}').terminal().result().then(() => 'fine', (reason) => reason.name);`),
    );
    await until(() => sandboxes.execs.at(-1)?.events !== undefined && sandboxes.execs.length === 2, 'it');
    await keyring.registry.revoke('bad');
    t.equal(await ended, 'ConnectionError');
  });
});

t.test('a page that was not let in, and a certificate that is not trusted, are explained', async (t) => {
  const library = await bundleLibrary(t);
  const origin = await serveElsewhere(t);
  const { url, key, issued } = await serveSecurely(t);
  const ask = `
    const client = new sandboxd.Client({ host: '${url}', apiKey: '${key}', retries: 0 });
    const why = (work) => work.then(() => 'fine', (reason) => reason.name + ': ' + reason.message);
    return [await why(client.whoami()), await why(client.sandboxes.get('sbx_0123456789abc').terminal().result())];`;
  const told = /^ConnectionError: cannot reach the daemon at https.*certificate.*--cors-origin/;
  const foreign = await openPage(t, origin, [trust(issued.certPath)]);
  await foreign.evaluate(library);
  t.match(await foreign.evaluate(script(ask)), [told, told]);
  const untrusting = await openPage(t, origin);
  await untrusting.evaluate(library);
  t.match(await untrusting.evaluate(script(ask)), [told, told]);
});
