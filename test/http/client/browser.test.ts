// The library in headless Chromium, in a page of the daemon itself.
import t from 'tap';
import { bundleLibrary, script } from '../../support/browser-library.ts';
import { openPage } from '../../support/chromium.ts';
import { until } from '../../support/until.ts';
import { serveCat } from '../cat.ts';
import { outflow } from '../fake-sandboxes.ts';
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
});
