// Images through the library and the command: steps of a pull, its failure, its end.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client, ConnectionError, TimeoutError, UpstreamError } from '@sandboxd/client';
import t, { type Test } from 'tap';
import type { Images } from '../../../host-agent/src/images/index.ts';
import { COMMAND, Running, runCommand } from '../../support/command.ts';
import { openPty } from '../../support/pty.ts';
import { until } from '../../support/until.ts';
import { FakeImages, IMAGE, LAYERS } from '../fake-images.ts';
import { serve } from '../support.ts';

t.setTimeout(120_000);

async function connect(t: Test) {
  const images = new FakeImages();
  const served = await serve(t, { images: images.store as Images });
  const env = { SANDBOXD_HOST: served.url };
  return { ...served, images, env, client: new Client({ host: served.url }).images };
}

/** Neither ends before it is told to. */
function hold(images: FakeImages): { readonly isCancelled: () => boolean; readonly go: () => void } {
  const held = Promise.withResolvers<void>();
  let isCancelled = false;
  images.onPull = (_, signal) => {
    signal?.addEventListener('abort', () => {
      isCancelled = true;
      held.reject(signal.reason);
    });
    return held.promise;
  };
  return { isCancelled: () => isCancelled, go: held.resolve };
}

t.test('a pull tells of its steps, and gives the image', async (t) => {
  const { client, images } = await connect(t);
  const steps: unknown[] = [];
  const image = await client.pull('nginx:alpine', { onProgress: (step) => steps.push(step) });
  t.match(image, { digest: IMAGE.digest, source_ref: 'nginx:alpine' });
  const [layer, other] = LAYERS;
  t.same(steps, [
    { text: 'pulling nginx:alpine' },
    { text: `fetching layer ${layer}`, layer },
    { text: `fetching layer ${other}`, layer: other },
    { text: `fetching layer ${layer}`, layer, bytes: 2 ** 20, totalBytes: 2 ** 21 },
    { text: `fetching layer ${layer}`, layer, bytes: 2 ** 21, totalBytes: 2 ** 21 },
    { text: 'fetching layers', bytes: 2 ** 21, totalBytes: 2 ** 22 },
    { text: 'converting 2 layers' },
  ]);
  t.same(await client.pull('nginx:alpine', { pull: 'missing' }), image, 'without anybody to tell');
  t.same(images.asked.at(-1), ['pull', 'nginx:alpine', 'missing']);
});

t.test('a failed pull throws the same error with and without progress', async (t) => {
  const { client } = await connect(t);
  for (const options of [{}, { onProgress: () => undefined }]) {
    const error = await client.pull('nosuch', options).catch((reason: unknown) => reason);
    t.ok(error instanceof UpstreamError, String(error));
    t.match(error, {
      status: 502,
      code: 'upstream',
      requestId: /^req_/,
      message: 'cannot pull nosuch: manifest unknown',
    });
  }
  const off = await serve(t);
  await t.rejects(new Client({ host: off.url }).images.pull('a', { onProgress: () => undefined }), {
    name: 'UnsupportedError',
  });
});

t.test('a pull that is aborted or times out also ends at the daemon', async (t) => {
  const { client, images } = await connect(t);
  for (const give of ['signal', 'timeout'] as const) {
    const { isCancelled } = hold(images);
    const leave = new AbortController();
    const options = give === 'signal' ? { signal: leave.signal } : { timeoutMs: 300 };
    let isBegun = false;
    const pulling = client.pull('nginx', { ...options, onProgress: () => (isBegun = true) });
    pulling.catch(() => undefined);
    if (give === 'signal') await until(() => isBegun, 'a step');
    leave.abort(new Error('enough'));
    await (give === 'signal' ? t.rejects(pulling, { message: 'enough' }) : t.rejects(pulling, TimeoutError));
    await until(isCancelled, 'its end');
  }
});

t.test('an answer that breaks off is an error', async (t) => {
  const server = createServer((_, outgoing) => {
    outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' });
    outgoing.end('{"progress":"pulling"}\n{"image":{"dig');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => server.close());
  const host = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await t.rejects(new Client({ host }).images.pull('a', { onProgress: () => undefined }), ConnectionError);
});

t.test('in a pipe, a line for each step on stderr, and the digest on stdout', async (t) => {
  const { env, images } = await connect(t);
  t.same(await runCommand(['pull', 'nginx'], env), {
    code: 0,
    stdout: `${IMAGE.digest}\n`,
    stderr: `pulling nginx\nfetching layer ${LAYERS[0]}\nfetching layer ${LAYERS[1]}\nconverting 2 layers\n`,
  });
  t.same(await runCommand(['pull', 'nosuch'], env), {
    code: 1,
    stdout: '',
    stderr: 'pulling nosuch\nsandbox: cannot pull nosuch: manifest unknown\n',
  });
  t.match(await runCommand(['images', '-q'], env), { code: 0, stdout: 'base\nnginx:alpine\n' });
  t.match(await runCommand(['rmi', 'nginx:alpine'], env), { code: 0, stdout: 'nginx:alpine\n' });
  t.same(images.asked.at(-1), ['delete', 'nginx:alpine']);
});

t.test('on a terminal, a bar for each layer, and nothing of them at the end', async (t) => {
  const { env, images } = await connect(t);
  const { go } = hold(images);
  const pty = await openPty(t, [...COMMAND, 'pull', 'nginx'], env);
  await pty.shows(/fetching layers {2}\[#{12} {12}\] 50 % {2}2\.0 MiB \/ 4\.0 MiB\r\n/);
  await pty.shows(/a60222455a7d {2}\[#{24}\] 100 % {2}2\.0 MiB \/ 2\.0 MiB\r\n64f74f2e4219 {2}fetching\r\n/);
  go();
  t.equal(await pty.exited, 0);
  t.match(pty.shown, new RegExp(`\\x1b\\[\\dA\\r\\x1b\\[J${IMAGE.digest}\r\n$`));
});

t.test('run pulls an image before it creates, as --pull says', async (t) => {
  const { env, images, sandboxes } = await connect(t);
  const cases: [readonly string[], unknown][] = [
    [[], ['pull', 'nginx', 'missing']],
    [
      ['--pull', 'always'],
      ['pull', 'nginx', 'always'],
    ],
    [['--pull=missing'], ['pull', 'nginx', 'missing']],
  ];
  // The fake sandboxes have no images: what they say comes behind the pull.
  for (const [flags, asked] of cases) {
    t.match(await runCommand(['run', ...flags, 'nginx'], env), { stderr: /^pulling nginx\n/ });
    t.same(images.asked.splice(0), [asked]);
  }
  await runCommand(['run', '--pull', 'never', 'nginx'], env);
  t.same(images.asked, []);
  t.match(await runCommand(['run', '--pull', 'sometimes', 'nginx'], env), {
    code: 2,
    stderr: /--pull must be one of missing, always, never/,
  });
  t.match(await runCommand(['run', 'nosuch'], env), { code: 1, stderr: /manifest unknown/ });
  t.ok(sandboxes.list().length <= 4);
});

t.test('an unknown image with a name similar to a profile suggests the profile', async (t) => {
  const { env } = await connect(t);
  t.match(await runCommand(['run', 'nobase', 'sh'], env), {
    stderr: /manifest unknown; did you mean base\?\n$/,
  });
  t.match(await runCommand(['run', 'nosuchthing', 'sh'], env), { stderr: /manifest unknown\n$/ });
});

t.test('Ctrl-C gives a pull up', async (t) => {
  const { env, images } = await connect(t);
  const { isCancelled } = hold(images);
  const running = new Running(['pull', 'nginx'], env);
  await until(() => images.asked.length === 1, 'the pull');
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 130, stdout: '' });
  await until(isCancelled, 'its end');
});

t.test('a list of large pages is aborted before it fills the memory', async (t) => {
  let pages = 0;
  const piece = ' '.repeat(1 << 20);
  const server = createServer(async (_, outgoing) => {
    pages += 1;
    for (let at = 0; at < 90; at++) await new Promise((resolve) => outgoing.write(piece, resolve));
    outgoing.end(`{"images":[{"digest":"x"}]${pages < 6 ? ',"next_cursor":"on"' : ''}}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  t.teardown(() => server.closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const client = new Client({ host: `http://127.0.0.1:${port}`, retries: 0 });
  await t.rejects(client.images.list(), { message: /\/images lists more than \d+ characters/ });
  t.equal(pages, 3);
});
