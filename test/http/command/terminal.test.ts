// The command in a terminal of its own: raw keys, size, Ctrl-C, bars.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { COMMAND } from '../../support/command.ts';
import { openPty } from '../../support/pty.ts';
import { until } from '../../support/until.ts';
import { serveCat } from '../cat.ts';
import type { FakeExec } from '../fake-sandboxes.ts';

t.setTimeout(120_000);

/** What removes a bar. */
const ESCAPE = '\x1b';
const CLEAR = `\r${ESCAPE}[K`;

async function connect(t: Test) {
  const { url, id, sandboxes } = await serveCat(t);
  const start = (...words: string[]) => openPty(t, [...COMMAND, ...words], { SANDBOXD_HOST: url });
  const startIn = (env: Readonly<Record<string, string>>, ...words: string[]) =>
    openPty(t, [...COMMAND, ...words], { SANDBOXD_HOST: url, ...env });
  const exec = (): FakeExec | undefined => sandboxes.execs[0];
  return { id, sandboxes, start, startIn, exec };
}

t.test('keys go as they are typed, Ctrl-C and Ctrl-D included, and nothing is echoed here', async (t) => {
  const { id, start, exec } = await connect(t);
  const pty = await start('exec', '-it', id, 'bash');
  await until(() => exec() !== undefined, 'the command');
  t.same(exec()?.request.tty, { cols: 80, rows: 24 });
  t.equal(exec()?.request.env.TERM, 'xterm');
  await until(() => exec()?.events !== undefined, 'its start');
  exec()?.output('stdout', 'ready$ ');
  await pty.shows('ready$ ');
  pty.type('a\x03\x04\x1a\r');
  await until(() => exec()?.stdinText === 'a\x03\x04\x1a\r', 'the keys');
  await pty.shows('ready$ a\x03\x04\x1a\r');
  t.notMatch(pty.shown, '^C', 'the terminal itself echoes nothing');
  exec()?.exit({ exitCode: 7 });
  t.equal(await pty.exited, 7);
});

t.test('a new size of the terminal reaches the command', async (t) => {
  const { id, start, exec } = await connect(t);
  const pty = await start('exec', '-it', id, 'vi');
  await until(() => exec() !== undefined, 'the command');
  exec()?.output('stdout', 'ready');
  await pty.shows('ready');
  pty.resize(132, 43);
  await until(() => exec()?.calls.includes('resize 132x43') === true, 'the new size');
  exec()?.exit();
  t.equal(await pty.exited, 0);
});

t.test('the terminal is as it was, also when the daemon is lost', async (t) => {
  const { id, start, exec } = await connect(t);
  const pty = await start('exec', '-it', id, 'vi');
  await until(() => exec() !== undefined, 'the command');
  exec()?.output('stdout', 'ready');
  await pty.shows('ready');
  exec()?.exit({ exitCode: -1, error: 'the sandbox was deleted' });
  await pty.shows('sandbox: the sandbox was deleted');
  t.equal(await pty.exited, 126);
});

t.test('without -t, Ctrl-C is a signal for the command; twice, and it is left', async (t) => {
  const { id, start, exec } = await connect(t);
  const pty = await start('exec', '-i', id, 'sleep', '9');
  await until(() => exec() !== undefined, 'the command');
  exec()?.output('stdout', 'ready');
  await pty.shows('ready');
  pty.type('\x03');
  await until(() => exec()?.calls.includes('signal SIGINT') === true, 'the signal');
  pty.type('\x03');
  await until(() => exec()?.isCancelled === true, 'its end');
  t.equal(await pty.exited, 130);
});

t.test('a copy has a bar, which is gone at the end', async (t) => {
  const { id, sandboxes, start } = await connect(t);
  let isHeld = true;
  sandboxes.onPush = async (_, read) => {
    let bytes = 0;
    for (let part = await read(); part !== undefined; part = await read()) {
      bytes += part.length;
      while (isHeld && bytes > 2 ** 24) await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return { files: 1, bytes: 2 ** 26 };
  };
  const path = join(t.testdir({ big: Buffer.alloc(2 ** 26) }), 'big');
  const pty = await start('cp', path, `${id}:/srv/`);
  await pty.shows(/\[#+ +\] \d+ %/);
  isHeld = false;
  t.equal(await pty.exited, 0);
  t.match(pty.shown.split(CLEAR).at(-1), /^[^\r]*64.0 MiB\r\n$/);
});

t.test('a key that is typed is not shown', async (t) => {
  const { startIn } = await connect(t);
  const home = t.testdir({});
  const words = ['context', 'set', 'far', '--host', 'http://127.0.0.1:1', '--key', '-'];
  const pty = await startIn({ XDG_CONFIG_HOME: home }, ...words);
  await pty.shows('the key, which is not shown:');
  pty.type('sbk_secrex\x7ft\r');
  t.equal(await pty.exited, 0);
  t.notMatch(pty.shown, 'sbk_');
  const { contexts } = JSON.parse(readFileSync(join(home, 'sandbox/contexts.json'), 'utf8'));
  t.equal(contexts.far.apiKey, 'sbk_secret');
  const left = await startIn({ XDG_CONFIG_HOME: home }, ...words);
  await left.shows('the key, which is not shown:');
  left.type('\x03');
  t.equal(await left.exited, 1);
  t.match(left.shown, 'sandbox: nothing was given');
});

/** The daemon takes its time for 4 MiB; resolves with what a copy shows meanwhile. */
async function copySlowly(
  t: Test,
  { sandboxes, id, startIn }: Connected,
  env: Record<string, string>,
  cols = 80,
) {
  let isHeld = true;
  sandboxes.onPush = async (_, read) => {
    for (let part = await read(); part !== undefined; part = await read())
      while (isHeld) await new Promise((resolve) => setTimeout(resolve, 20));
    return { files: 1, bytes: 2 ** 22 };
  };
  const path = join(t.testdir({ big: Buffer.alloc(2 ** 22) }), 'big');
  const pty = await startIn(env, 'cp', path, `${id}:/srv/`);
  pty.resize(cols, 5);
  setTimeout(() => {
    isHeld = false;
  }, 1500);
  t.equal(await pty.exited, 0);
  return pty.shown;
}
type Connected = Awaited<ReturnType<typeof connect>>;

t.test('a terminal that obeys nothing gets no bars', async (t) => {
  const shown = await copySlowly(t, await connect(t), { TERM: 'dumb' });
  t.notMatch(shown, ESCAPE);
  t.match(shown, /4\.0 MiB\r\n$/);
});

t.test('a narrow one gets lines that do not wrap', async (t) => {
  const shown = await copySlowly(t, await connect(t), {}, 20);
  const [, ...drawn] = shown.split(CLEAR).slice(0, -1);
  t.ok(drawn.length > 3);
  // The first lines may have been drawn before it was made narrow.
  for (const line of drawn.slice(3)) t.ok(line.length < 20, line);
});
