// One pull, as a client requests it: refusals, their error texts, and results.
import '../support/addon-dir.ts';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Channel, Result } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { NOT_NOW } from '../../../../guest-agent/src/native/addon.ts';
import { until } from '../../../support/until.ts';
import { leaveAndComeBack, startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';
import { replaceInAddon } from '../support/replaced-addon.ts';

const dir = mkdtempSync(join(tmpdir(), 'one-file-'));
t.teardown(() => rmSync(dir, { recursive: true }));

type Pulled = { readonly result: Result; readonly text: string; readonly file: object | undefined };

function pull(channel: Channel, path: string, maxBytes = 2 ** 40): Promise<Pulled> {
  const chunks: Buffer[] = [];
  let file: object | undefined;
  return new Promise((resolve, reject) => {
    const stream = channel.open(
      { filePull: { path, maxBytes } },
      {
        started: (_pid, info) => {
          file = info;
        },
        data: (_flow, chunk) => {
          chunks.push(Buffer.from(chunk));
          stream.consumed(chunk.length);
        },
        result: (result) => resolve({ result, text: Buffer.concat(chunks).toString('latin1'), file }),
        lost: ({ kind }) => reject(new Error(`lost: ${kind}`)),
      },
    );
  });
}

/** Replaces reads of the descriptor that a pull opens next. */
function replaceReads(t: Test, read: (turn: number, readOn: () => number) => number): void {
  let file = -1;
  let turn = 0;
  const real = replaceInAddon(t, {
    openFile: (...all) => {
      turn = 0;
      file = real.openFile(...all);
      return file;
    },
    read: (fd, ...range) =>
      fd === file ? read(++turn, () => real.read(fd, ...range)) : real.read(fd, ...range),
  });
}

t.test('a file has its size, whatever it says of it, and as much of it as was asked for', async (t) => {
  const channel = await startLocalAgent(t).connect();
  for (const size of [0, 1, 16_383, 16_384, 70_000]) {
    const path = join(dir, `of-${size}`);
    const content = Buffer.alloc(size, 'abcdefg').toString();
    writeFileSync(path, content);
    for (const maxBytes of [0, 1, size, size + 1]) {
      const wanted = Math.min(size, maxBytes);
      const { result, text, file } = await pull(channel, path, maxBytes);
      t.ok(result.filePull, `${size} bytes, at most ${maxBytes}`);
      t.ok(text === content.slice(0, wanted));
      t.match(file, { isSizeKnown: true, sizeBytes: size, contentBytes: wanted });
    }
  }
  const { text, file } = await pull(channel, '/proc/self/status');
  t.match(text, /^Name:/, 'the kernel says that it is empty');
  t.match(file, { isSizeKnown: true, sizeBytes: text.length, contentBytes: text.length });
});

t.test('one whose end is not in sight is read to where the client wants it', async (t) => {
  const channel = await startLocalAgent(t).connect();
  // More than the first read, of a file without a size.
  const path = `/proc/${process.pid}/pagemap`;
  const { result, text, file } = await pull(channel, path, 3_000_000);
  t.ok(result.filePull);
  t.equal(text.length, 3_000_000);
  t.match(file, { isSizeKnown: false });
});

t.test('one that cannot be read is named, also when it is not known why', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const before = openDescriptors();
  writeFileSync(join(dir, 'small'), 'content');
  let code: string | undefined;
  replaceReads(t, () => {
    throw Object.assign(new Error('odd'), code && { code });
  });
  for (const [reason, words] of [
    ['EACCES', 'may not be accessed (permission denied)'],
    [undefined, 'cannot be read or written (input/output error)'],
  ] as const) {
    code = reason;
    const { result, file } = await pull(channel, join(dir, 'small'));
    t.equal(result.error?.message, `${JSON.stringify(join(dir, 'small'))} ${words}`);
    t.equal(file, undefined);
  }
  t.equal(openDescriptors(), before);
});

t.test('what has nothing more for now has ended', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = openDescriptors();
  writeFileSync(join(dir, 'slow'), 'x');
  let end = NOT_NOW;
  let turns = 2;
  // Like the kernel's log: some data now, more later.
  replaceReads(t, (turn, readOn) => (turn < turns ? readOn() : end));
  const { result, text, file } = await pull(channel, join(dir, 'slow'));
  t.same([result.error, text], [null, 'x']);
  t.match(file, { isSizeKnown: true, sizeBytes: 1 });
  turns = 70;
  for (end of [0, NOT_NOW]) {
    const { result, text, file } = await pull(channel, `/proc/${process.pid}/pagemap`);
    t.ok(result.filePull && text.length > 2 ** 20, `${text.length} bytes`);
    t.match(file, { isSizeKnown: false });
  }
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});

t.test('long files of an emulated guest are read past its page cache', async (t) => {
  const path = join(dir, 'long');
  writeFileSync(path, '');
  let begun = 0;
  const real = replaceInAddon(t, {
    startDirectRead: (fd) => {
      begun += 1;
      return real.startDirectRead(fd);
    },
  });
  const channel = await startLocalAgent(t, { isEmulated: true }).connect();
  for (const [size, maxBytes, expected] of [
    [2 ** 22 - 1, 2 ** 40, 0],
    [2 ** 22, 2 ** 40, 1],
    [2 ** 22, 2 ** 22 - 1, 1],
  ] as const) {
    truncateSync(path, size);
    t.equal((await pull(channel, path, maxBytes)).text.length, Math.min(size, maxBytes));
    t.equal(begun, expected, `${size} bytes, at most ${maxBytes}`);
  }
  await pull(channel, `/proc/${process.pid}/pagemap`, 2 ** 22);
  t.equal(begun, 1, 'those of an unknown size are not');
});

t.test('a pull whose host leaves, or that is cancelled, closes its file', async (t) => {
  const agent = startLocalAgent(t);
  await agent.connect();
  const before = openDescriptors();
  for (const path of ['long', 'small'].map((name) => join(dir, `held ${name}`))) {
    writeFileSync(path, Buffer.alloc(path.endsWith('long') ? 5_000_000 : 10_000));
    for (const end of ['cancel', 'leave'] as const) {
      const channel = await agent.connect(`${path} ${end}`);
      let received = 0;
      const ended = Promise.withResolvers<unknown>();
      const stream = channel.open(
        { filePull: { path, maxBytes: 2 ** 40 } },
        {
          data: (_flow, chunk) => {
            received += chunk.length;
          },
          result: ended.resolve,
          lost: ended.resolve,
        },
      );
      if (path.endsWith('long')) await until(() => received > 0, 'the first bytes');
      if (end === 'cancel') stream.cancel();
      else channel.close(new Error('gone'));
      const result = await ended.promise;
      if (end === 'cancel' && path.endsWith('long'))
        t.match(result, { error: { code: 'cancelled', message: 'the pull was cancelled' } });
      await leaveAndComeBack(agent);
      t.equal(openDescriptors(), before);
    }
  }
  t.same(agent.faults, []);
});

t.test('what cannot be read is refused by name, and nothing of it stays open', async (t) => {
  const channel = await startLocalAgent(t).connect();
  mkdirSync(join(dir, 'directory'));
  writeFileSync(join(dir, 'file'), '');
  symlinkSync('loop', join(dir, 'loop'));
  const server = createServer().listen(join(dir, 'socket'));
  await new Promise((resolve) => server.once('listening', resolve));
  t.teardown(() => server.close());
  const before = openDescriptors();
  for (const [path, code, message] of [
    [join(dir, 'directory'), 'is_directory', /directory" is a directory; format=tar gives what is in it$/],
    [join(dir, 'absent'), 'not_found', /absent" does not exist$/],
    [join(dir, 'file/below'), 'not_directory', /goes through something that is not a directory$/],
    [join(dir, 'loop'), 'invalid', /too many symbolic links/],
    [join(dir, 'socket'), 'invalid', /is a socket; only regular files can be read$/],
    ['/dev/null', 'invalid', /is a character device; only regular files/],
    ['/'.padEnd(5000, 'x'), 'invalid', /too long a name for Linux$/],
    ['relative', 'invalid', /^path "relative" is not an absolute path$/],
    ['/a\0b', 'invalid', /not an absolute path$/],
  ] as const) {
    const { result, text } = await pull(channel, path);
    t.match(result.error, { code, message }, path.slice(0, 80));
    t.equal(text, '');
  }
  t.equal(openDescriptors(), before);
});
