// A daemon that goes in the middle of a verb: each ends by itself, says what happened, and leaves no half of a file.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import { Running } from '../../support/command.ts';
import { until } from '../../support/until.ts';
import { FakeImages } from '../fake-images.ts';
import { outflow } from '../fake-sandboxes.ts';
import { serve } from '../support.ts';

t.setTimeout(120_000);

const never = () => new Promise<never>(() => {});

/** A daemon that begins everything and finishes nothing. `begun` counts. */
async function serveEndless(t: Test) {
  const images = new FakeImages();
  const served = await serve(t, { images: images.store as never });
  const { sandboxes } = served;
  const work = { begun: 0 };
  const begin = (): Promise<never> => {
    work.begun++;
    return never();
  };
  sandboxes.script = (exec) => {
    exec.output('stdout', 'begun\n');
    work.begun++;
  };
  sandboxes.onPush = async (_, read) => {
    await read();
    return begin();
  };
  sandboxes.onPull = async (path) => {
    if (path === '/x') throw new AppError('not_found', 'there is no such file');
    const part = outflow('part');
    let asked = 0;
    const next = () => (asked++ === 0 ? part.next() : begin());
    return { sizeBytes: 100, contentBytes: 100, body: { next, cancel: () => {} } };
  };
  const { id } = sandboxes.add();
  const snapshot = await sandboxes.snapshot(id);
  sandboxes.snapshot = begin;
  sandboxes.fork = begin;
  sandboxes.onFork = begin;
  sandboxes.onDelete = begin;
  sandboxes.serviceCalls = { stop: begin };
  images.onPull = begin;
  return { ...served, work, id, snapshot: snapshot.id };
}

const LOST = 'lost the daemon at http://127.0.0.1:\\d+: the connection broke off';
const RUNNING = `(?:${LOST}|the daemon ended the connection); sleep was running, and is ended with it \\(request req_\\w+\\)`;
const MAYBE = `${LOST}; it may or may not have been carried out`;
const ABOUT = '(?: \\(request req_\\w+\\))?';

/** Words, ID, SNAP and DIR being filled in, and all that stands on standard error. */
const VERBS: readonly (readonly [words: string, said: string])[] = [
  ['exec ID sleep', RUNNING],
  ['exec -i ID sleep', RUNNING],
  ['cp DIR/big ID:/x', MAYBE],
  ['cp ID:/f DIR/out', LOST],
  ['cp ID:/f -', LOST],
  ['pull nginx', LOST],
  ['snapshot ID', MAYBE],
  ['fork ID', MAYBE],
  ['fork SNAP', MAYBE],
  ['rm ID', MAYBE],
  ['service stop ID', MAYBE],
];

t.test('each verb ends, and says what became of it', async (t) => {
  for (const [line, said] of VERBS) {
    const { url, server, work, id, snapshot } = await serveEndless(t);
    const dir = t.testdir({});
    writeFileSync(join(dir, 'big'), Buffer.alloc(2 ** 24));
    const words = line.replace('ID', id).replace('SNAP', snapshot).replace('DIR', dir).split(' ');
    const running = new Running(words, { SANDBOXD_HOST: url });
    let stdout = 0;
    running.child.stdout?.on('data', (bytes: Buffer) => {
      stdout += bytes.length;
    });
    await until(() => work.begun > 0, line);
    // Something has arrived, where something does.
    if (line.startsWith('exec')) await until(() => stdout > 0, 'its output');
    await server.close();
    const { code, stderr } = await running.ended;
    t.equal(code, 1, line);
    t.match(stderr, new RegExp(`^(?:pulling nginx\\n|fetching .*\\n)*sandbox: ${said}${ABOUT}\\n$`), line);
    t.same(readdirSync(dir), ['big'], `${line} leaves nothing`);
  }
});

t.test('as JSON, with the request', async (t) => {
  const { url, server, work, id } = await serveEndless(t);
  const running = new Running(['exec', '--json', id, 'sleep'], { SANDBOXD_HOST: url });
  await until(() => work.begun > 0, 'the command');
  await new Promise((resolve) => setTimeout(resolve, 200));
  await server.close();
  const { code, stdout, stderr } = await running.ended;
  t.same([code, stdout], [1, '']);
  t.match(JSON.parse(stderr), { error: /sleep was running/, request_id: /^req_/ });
});

t.test('what run --rm cannot remove is named, and how it was lost as well', async (t) => {
  const { url, server, work, sandboxes } = await serveEndless(t);
  sandboxes.onDelete = async () => {};
  const running = new Running(['run', '--rm', 'base', 'sleep'], { SANDBOXD_HOST: url });
  await until(() => work.begun > 0, 'the command');
  const { id } = sandboxes.list().at(-1) ?? {};
  await server.close();
  const { code, stderr } = await running.ended;
  t.equal(code, 1);
  t.match(
    stderr,
    `sandbox: sandbox ${id} may be left; \`sandbox rm ${id}\` removes it: cannot reach the daemon`,
  );
  t.match(stderr, /\nsandbox: .*sleep was running, and is ended with it/);
});

t.test('when the daemon comes back in time, reads are retried and --rm removes the sandbox', async (t) => {
  const { url, port, server, work, sandboxes } = await serveEndless(t);
  const running = new Running(['run', '--rm', 'base', 'sleep'], { SANDBOXD_HOST: url });
  await until(() => work.begun > 0, 'the command');
  const { id = '' } = sandboxes.list().at(-1) ?? {};
  await server.close();
  const again = await serve(t, { port });
  again.sandboxes.add(id);
  const { code, stderr } = await running.ended;
  t.equal(code, 1);
  t.notMatch(stderr, /may be left/);
  t.same(again.sandboxes.list(), []);
});

t.test('a daemon that is not there is asked after', async (t) => {
  const running = new Running(['ps'], { SANDBOXD_HOST: 'http://127.0.0.1:1' });
  t.match(await running.ended, {
    code: 1,
    stderr:
      /^sandbox: cannot reach the daemon at http:\/\/127.0.0.1:1: [^;]*; is sandboxd running there\? --host, [^\n]*\n$/,
  });
});
