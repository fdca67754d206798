// The command's verbs for images as they are typed, with a real registry and real guests: on a terminal and in pipes.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { checkedUrl } from '../support/checked-proxy.ts';
import { startDaemon } from '../support/daemon.ts';
import { compileProgram } from '../support/image-program.ts';
import { openPty } from '../support/pty.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { stored, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const SANDBOX = resolve(import.meta.dirname, '../../dist/sandbox');
const ESCAPE = '\x1b';
/** The newest of what a terminal shows begins behind the last removal of bars. */
const CLEAR = `${ESCAPE}[J`;
const DIGEST = /^sha256:[\da-f]{64}$/;

const world = new World(t);
const registry = await world.startRegistry();
const daemon = await startDaemon(t, { flags: ['--template-disk-bytes', '0'] });
const { api, directories } = daemon;
const env = { SANDBOXD_HOST: await checkedUrl(t, daemon.url) };
const program = compileProgram('gcc', '-static');
const image = (content: Buffer) => ({
  layers: [[{ name: 'it', mode: 0o755, content: program }], [{ name: 'data', content }]],
  config: { Entrypoint: ['/it'] },
});

const run = (...words: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
  promisify(execFile)(SANDBOX, words, { env: { ...process.env, ...env } }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  );

t.test('in a pipe: plain lines of each step, and the digest', async (t) => {
  const name = `${registry}/piped:v1`;
  world.push(name, image(randomBytes(2 ** 20)));
  const pulled = await run('pull', name);
  t.equal(pulled.code, 0, pulled.stderr);
  const digest = pulled.stdout.trim();
  t.match(digest, DIGEST);
  const steps = pulled.stderr.split('\n');
  t.equal(steps[0], `pulling ${name}`);
  t.equal(steps.filter((step) => /^fetching layer [\da-f]{12}$/.test(step)).length, 2, pulled.stderr);
  t.notOk(pulled.stderr.includes(ESCAPE) || pulled.stderr.includes('\r'), 'no bars');
  t.match(JSON.parse((await run('--json', 'pull', name)).stdout), { digest, source_ref: name });
  t.match((await run('images')).stdout, new RegExp(`^${name} +image +${digest.slice(7, 19)} +\\d`, 'm'));
  t.ok((await run('images', '-q')).stdout.split('\n').includes(name));
  t.match(JSON.parse((await run('images', '--json')).stdout).images, [{ digest }]);

  t.same(await run('run', '--rm', '-e', 'A=b', name, '/it', 'here'), {
    code: 0,
    stdout: 'here uid=0 A=b cwd=/\n',
    stderr: '',
  });
  t.match(await run('run', '--rm', name, 'sh'), { code: 127, stderr: /not found/ }, 'it has no shell');
  const { stdout: id } = await run('run', name);
  t.match(
    await run('service', 'status', id.trim()),
    { code: 0, stdout: /running/ },
    'its entrypoint is the service',
  );
  t.match(await run('rmi', name), { code: 0, stdout: `${name}\n` }, 'what runs from it runs on');
  t.same(await run('exec', id.trim(), '/it', 'on'), { code: 0, stdout: 'on uid=0 A=- cwd=/\n', stderr: '' });
  t.match(await run('rmi', name), { code: 1, stdout: '', stderr: /^sandbox: .*piped:v1/ });
  t.match(await run('run', '--rm', '--pull', 'never', name, 'it', 'x'), { code: 1, stderr: /piped:v1/ });
  t.match(await run('rm', id.trim()), { code: 0 });
  t.same(await api.list(), []);
});

t.test('what the registry does not have is its own sentence, once', async (t) => {
  for (const verb of ['pull', 'run']) {
    const { code, stdout, stderr } = await run(verb, `${registry}/nosuch:v1`);
    t.equal(code, 1);
    t.equal(stdout, '');
    t.match(stderr, /^pulling \S+\/nosuch:v1\nsandbox: cannot pull \S+\/nosuch:v1: [^\n]*unknown[^\n]*\n$/);
  }
  t.match(await run('pull', 'No Such'), { code: 1, stderr: /^sandbox: [^\n]+\n$/ });
  t.match(await run('pull', ''), { stderr: /^sandbox: [^\n]+\n/ });
  t.same(await api.list(), []);
});

t.test('on a terminal: a line for each layer while it comes, and nothing of that at the end', async (t) => {
  const name = `${registry}/shown:v1`;
  world.push(name, image(randomBytes(2 ** 20)));
  const pty = await openPty(t, [SANDBOX, 'run', '-it', '--rm', name, '/it', 'typed'], env);
  await pty.shows(/[\da-f]{12} {2}(?:fetching|\[)/);
  t.equal(await pty.exited, 0);
  t.match(pty.shown, /typed uid=0 A=- cwd=\/\r+\n$/);
  t.notMatch(pty.shown.slice(pty.shown.lastIndexOf(CLEAR)), /fetching/);
  const again = await openPty(t, [SANDBOX, 'pull', name], env);
  t.equal(await again.exited, 0);
  // What is there already may come without a single line of progress, and then nothing is cleared.
  t.match(again.shown.split(CLEAR).at(-1)?.trim(), DIGEST);
  t.match(await run('rmi', name), { code: 0 });
  t.same(await api.list(), []);
});

t.test(
  'Ctrl-C in the middle of a layer: 130, a clean terminal, and nothing is left in the store',
  async (t) => {
    const name = 'held:v1';
    world.push(`${registry}/${name}`, image(randomBytes(4 * 2 ** 20)));
    // The registry of a bad day: large blobs begin, and do not go on.
    const held = createServer((incoming, outgoing) => {
      get(`http://${registry}${incoming.url}`, { headers: incoming.headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 0, answer.rawHeaders);
        if (Number(answer.headers['content-length']) < 2 ** 20) answer.pipe(outgoing);
        else answer.once('data', (begin) => outgoing.write(begin));
      });
    });
    await new Promise<void>((done) => held.listen(0, '127.0.0.1', done));
    t.teardown(() => {
      held.closeAllConnections();
      held.close();
    });
    const ref = `127.0.0.1:${(held.address() as AddressInfo).port}/${name}`;
    const before = stored(directories.dataDir);
    for (const words of [
      ['pull', ref],
      ['run', '--rm', ref, '/it', 'x'],
    ]) {
      const pty = await openPty(t, [SANDBOX, ...words], env);
      await pty.shows(/[\da-f]{12} {2}fetching/);
      pty.type('\x03');
      t.equal(await pty.exited, 130, words.join(' '));
      t.notMatch(pty.shown.slice(pty.shown.lastIndexOf(CLEAR)), /fetching/);
      await until(() => stored(directories.dataDir).work === 0, 'the end of the pull at the daemon');
    }
    t.same(stored(directories.dataDir).rootfs, before.rootfs);
    t.notOk((await run('images', '-q')).stdout.includes(name));
    t.same(await api.list(), []);
  },
);
