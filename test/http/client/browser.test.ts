// The library in headless Chromium, in a page of the daemon itself.
import t from 'tap';
import { bundleLibrary, script } from '../../support/browser-library.ts';
import { openPage } from '../../support/chromium.ts';
import { until } from '../../support/until.ts';
import { serveCat } from '../cat.ts';
import { outflow } from '../fake-sandboxes.ts';
import { FakeService } from '../fake-service.ts';
import { serve } from '../support.ts';

t.setTimeout(120_000);

t.test('it works in a browser', async (t) => {
  const library = await bundleLibrary(t);
  await t.test('sandboxes, one-way commands, files, errors', async (t) => {
    const { url, sandboxes } = await serve(t);
    sandboxes.script = (exec) => {
      exec.output('stdout', 'hello ');
      exec.output('stderr', 'oops');
      exec.output('stdout', 'wörld');
      exec.exit({ exitCode: 3 });
    };
    const pushed: string[] = [];
    sandboxes.onPush = async (path, read) => {
      let bytes = 0;
      for (let part = await read(); part !== undefined; part = await read()) bytes += part.length;
      pushed.push(path);
      return { files: 1, bytes };
    };
    sandboxes.onPull = async () => ({ sizeBytes: 3, contentBytes: 3, body: outflow('abc') });
    const page = await openPage(t, `${url}/healthz`);
    await page.evaluate(library);
    const seen = await page.evaluate(
      script(`
        const client = new sandboxd.Client();
        const sandbox = await client.sandboxes.create({ vcpus: 2 });
        const output = await sandbox.exec(['x']).output();
        await sandbox.files.write('/srv/a', 'text');
        const file = await sandbox.files.readText('/srv/a');
        const error = await client.images.list().catch((reason) => reason);
        await sandbox.delete();
        const gone = await sandbox.info().catch((reason) => reason);
        return {
          output, file,
          unsupported: error instanceof sandboxd.UnsupportedError, id: error.requestId,
          gone: [gone instanceof sandboxd.NotFoundError, gone.status],
          left: (await client.sandboxes.list()).length,
        };`),
    );
    t.match(seen, {
      output: { stdout: 'hello wörld', stderr: 'oops', result: { exit_code: 3 } },
      file: 'abc',
      unsupported: true,
      id: /^req_/,
      gone: [true, 404],
      left: 0,
    });
    t.same(pushed, ['/srv']);
  });

  await t.test('interactive commands over a WebSocket', async (t) => {
    const { url, id, sandboxes } = await serveCat(t);
    const page = await openPage(t, `${url}/healthz`);
    await page.evaluate(library);
    const seen = await page.evaluate(
      script(`
        const sandbox = new sandboxd.Client().sandboxes.get('${id}');
        const whole = await sandbox.exec(['cat'], { stdin: 'x'.repeat(200000) }).output();
        const terminal = sandbox.terminal({ size: { cols: 90, rows: 20 } });
        await terminal.resize({ cols: 91, rows: 21 });
        await terminal.signal('SIGINT');
        await terminal.write('hi');
        let text = '';
        for await (const chunk of terminal) {
          text += chunk.text;
          await terminal.closeStdin();
        }
        const refused = await new sandboxd.Client().sandboxes.get('sbx_0123456789abc').terminal().result().catch((reason) => reason);
        return { whole: whole.stdout.length, text, result: await terminal.result(), refused: refused.name };`),
    );
    t.match(seen, { whole: 200_000, text: 'hi', result: { exit_code: 4 }, refused: 'NotFoundError' });
    t.same(sandboxes.execs[1]?.request.tty, { cols: 90, rows: 20 });
    t.same(sandboxes.execs[1]?.calls.slice(0, 2), ['resize 91x21', 'signal SIGINT']);
  });

  await t.test('a loop that is left, and an abort, end the command', async (t) => {
    const { url, sandboxes } = await serve(t);
    sandboxes.script = (exec) => exec.output('stdout', 'begun');
    const { id } = sandboxes.add();
    const page = await openPage(t, `${url}/healthz`);
    await page.evaluate(library);
    const seen = await page.evaluate(
      script(`
        const sandbox = new sandboxd.Client().sandboxes.get('${id}');
        for await (const _ of sandbox.exec(['a'])) break;
        for await (const _ of sandbox.exec(['b'], { stdin: true })) break;
        const leave = new AbortController();
        setTimeout(() => leave.abort(new Error('enough')), 50);
        return sandbox.exec(['c'], { signal: leave.signal }).result().catch((reason) => reason.message);`),
    );
    t.equal(seen, 'enough');
    await until(() => sandboxes.execs.every(({ isCancelled }) => isCancelled), 'the end of all commands');
    t.equal(sandboxes.execs.length, 3);
  });

  await t.test('a daemon that goes and comes back: no call hangs, and the page goes on', async (t) => {
    const { url, port, server, sandboxes } = await serve(t);
    const guest = new FakeService();
    sandboxes.serviceCalls = { output: guest.output };
    sandboxes.script = (exec) => exec.output('stdout', 'begun');
    const { id } = sandboxes.add();
    const page = await openPage(t, `${url}/healthz`);
    await page.evaluate(library);
    const running = page.evaluate(
      script(`
        const sandbox = new sandboxd.Client({ retries: 0 }).sandboxes.get('${id}');
        const told = ({ name, message }) => [name, message];
        globalThis.seen = '';
        (async () => {
          for await (const { text } of sandbox.service.logs({ follow: true })) seen += text;
        })();
        return Promise.all([
          sandbox.exec(['a']).result().catch(told),
          sandbox.exec(['b'], { stdin: true }).result().catch(told),
        ]);`),
    );
    await until(() => sandboxes.execs.length === 2, 'both commands');
    await until(() => guest.asked.length === 1, 'who follows the service');
    await server.close();
    const lost = (await running) as [string, string][];
    for (const [at, [name, message]] of lost.entries()) {
      t.equal(name, 'ConnectionError');
      t.match(message, new RegExp(`${'ab'[at]} was running, and is ended with it$`));
    }
    const away = await page.evaluate(
      script(`
        const client = new sandboxd.Client({ retries: 0 });
        const told = ({ name, message }) => [name, message];
        return Promise.all([
          client.sandboxes.list().catch(told),
          client.sandboxes.get('${id}').terminal().result().catch(told),
        ]);`),
    );
    for (const [name, message] of away as [string, string][]) {
      t.equal(name, 'ConnectionError');
      t.match(message, 'cannot reach the daemon');
    }
    const again = await serve(t, { port });
    again.sandboxes.add(id);
    again.sandboxes.serviceCalls = { output: guest.output };
    guest.rings[0]?.[1].push('two');
    const back = await page.evaluate(
      script(`
        const client = new sandboxd.Client({ retries: 0 });
        const [{ id }] = await client.sandboxes.list();
        return [id, (await client.sandboxes.get(id).exec(['c'], { stdin: '' }).result()).exit_code];`),
    );
    t.same(back, [id, 0]);
    await until(() => guest.asked.length === 2, 'who follows the service');
    t.equal(await page.evaluate('new Promise((done) => setTimeout(() => done(seen), 200))'), 'zero one two');
    await page.open(`${url}/docs`);
    t.match(await page.evaluate('document.title'), /sandboxd/i);
  });
});
