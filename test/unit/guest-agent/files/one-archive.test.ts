// One push, as a client sends it: refusals, their error texts, and results.
import '../support/addon-dir.ts';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Stream } from '@sandboxd/proto';
import t from 'tap';
import { LINK_WRITE } from '../../../../guest-agent/src/channel/link-writes.ts';
import { startPush } from '../../../../guest-agent/src/files/push.ts';
import { until } from '../../../support/until.ts';
import { leaveAndComeBack, push, startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';
import { replaceInAddon } from '../support/replaced-addon.ts';
import { archive } from '../support/tar-blocks.ts';

const dir = mkdtempSync(join(tmpdir(), 'one-archive-'));
t.teardown(() => rmSync(dir, { recursive: true }));

const TWO = archive([
  { name: 'one', content: 'first' },
  { name: 'sub/two', content: 'x'.repeat(100_000) },
]);

t.test('an archive may be compressed, and come in any pieces', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const before = openDescriptors();
  for (const [name, bytes, pieceBytes] of [
    ['plain', TWO, 65_536],
    ['plain, begun by one byte', TWO, 1],
    ['gzip', gzipSync(TWO), 65_536],
    ['gzip, byte by byte', gzipSync(TWO), 1],
  ] as const) {
    const to = join(dir, `to ${name}`);
    let sent = 0;
    const { filePush } = await push(channel, to, bytes, () => (sent++ < 5 ? pieceBytes : 65_536)).done;
    t.match(filePush, { files: 2, bytes: 100_005 }, name);
    t.equal(readFileSync(join(to, 'one'), 'utf8'), 'first');
    t.equal(readFileSync(join(to, 'sub/two'), 'utf8').length, 100_000);
  }
  t.equal(openDescriptors(), before);
});

t.test('an invalid or truncated archive is reported, with the number of files written before', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const before = openDescriptors();
  const zipped = gzipSync(TWO, { level: 0 });
  const damaged = Buffer.from(zipped);
  damaged.fill(0xff, 60_000, 60_100);
  damaged.writeUInt32LE(0, damaged.length - 8);
  const random = (hex: string) => Buffer.concat([Buffer.from(hex, 'hex'), Buffer.alloc(600)]);
  for (const [name, bytes, message] of [
    [
      'zstd',
      random('28b52ffd'),
      /^this is zstd; send a tar archive, plain or gzip; 0 files were written before$/,
    ],
    ['xz', random('fd377a58'), /^this is xz;/],
    ['bzip2', random('425a68'), /^this is bzip2;/],
    ['zip', random('504b0304'), /^this is zip;/],
    [
      'cut gzip',
      zipped.subarray(0, 50_000),
      /^the archive is cut off: its gzip stream has no end; 1 file was written/,
    ],
    ['damaged gzip', damaged, /^the archive is damaged: its gzip stream cannot be read \(.+\)/],
    ['cut', TWO.subarray(0, 50_000), /; 1 file was written before$/],
    ['one byte', Buffer.of(1), /; 0 files were written before$/],
    ['nothing', Buffer.alloc(0), /; 0 files were written before$/],
  ] as const) {
    const { error } = await push(channel, join(dir, `bad ${name}`), bytes).done;
    t.match(error, { code: 'invalid', message }, name);
  }
  writeFileSync(join(dir, 'no-directory'), '');
  const { error } = await push(channel, join(dir, 'no-directory'), TWO).done;
  t.match(error, { message: /no-directory/ }, 'nor is a file a destination');
  t.equal(openDescriptors(), before);
});

t.test('a compressed archive may be longer than what waits at most', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const content = randomBytes(3_000_000).toString('latin1');
  const long = archive([{ name: 'long', content: Buffer.from(content, 'latin1') }]);
  const to = join(dir, 'long archive');
  t.match((await push(channel, to, gzipSync(long, { level: 1 })).done).filePush, {
    files: 1,
    bytes: 3_000_000,
  });
  t.ok(readFileSync(join(to, 'long'), 'latin1') === content);
});

t.test(
  'a push that is cancelled, or whose host leaves, leaves nothing of the file, compressed or not',
  async (t) => {
    const agent = startLocalAgent(t);
    const content = randomBytes(3_000_000);
    const long = archive([{ name: 'part', content }]);
    await agent.connect();
    const before = openDescriptors();
    for (const [kind, bytes] of [
      ['plain', long],
      ['gzip', gzipSync(long, { level: 1 })],
    ] as const)
      for (const end of ['cancel', 'leave'] as const) {
        const to = join(dir, `${kind} ${end}`);
        const channel = await agent.connect(to);
        const has = (): boolean => existsSync(join(to, 'part'));
        let isHeld = false;
        const { stream, done } = push(channel, to, bytes, () => {
          isHeld ||= has();
          return isHeld ? 1 : 65_536;
        });
        const ended = done.catch((error: Error) => error.message);
        await until(has, 'the file');
        if (end === 'cancel') stream.cancel();
        else channel.close(new Error('gone'));
        t.match(
          await ended,
          end === 'cancel' ? { error: { code: 'cancelled', message: 'the push was cancelled' } } : /^lost/,
        );
        await leaveAndComeBack(agent);
        t.equal(openDescriptors(), before);
        t.notOk(has());
      }
    t.same(agent.faults, []);
  },
);

t.test('a fault of the agent ends the push as its own', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = openDescriptors();
  replaceInAddon(t, {
    putFile: () => {
      throw new Error('odd');
    },
  });
  const { error } = await push(channel, join(dir, 'odd'), TWO).done;
  t.match(error, { code: 'internal', message: 'odd' });
  t.match(agent.faults, [{ message: 'odd' }]);
  t.equal(openDescriptors(), before);
});

t.test('a full disk during a direct write is reported', async (t) => {
  const agent = startLocalAgent(t, { isEmulated: true });
  const channel = await agent.connect();
  const before = openDescriptors();
  let failsAt = Number.POSITIVE_INFINITY;
  let runs = 0;
  const real = replaceInAddon(t, {
    runLinkWrite: (mostBytes, numbers, unread) => {
      const status = real.runLinkWrite(mostBytes, numbers, unread);
      if (++runs < failsAt) return status;
      numbers[3] = constants.errno.ENOSPC;
      return LINK_WRITE.failed;
    },
  });
  const content = randomBytes(6_000_000);
  const long = archive([{ name: 'large', content }]);
  const to = join(dir, 'full');
  t.match((await push(channel, to, long).done).filePush, { files: 1, bytes: 6_000_000 });
  t.ok(readFileSync(join(to, 'large')).equals(content));
  t.ok(runs > 2, `${runs} runs`);
  failsAt = runs + 3;
  const { error } = await push(channel, to, long).done;
  t.match(error, {
    code: 'no_space',
    message: /^"large" cannot be written: .*; 0 files were written before$/,
  });
  t.notOk(existsSync(join(to, 'large')));
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});

t.test('every byte is consumed, also one that comes alone, and is looked at', async (t) => {
  const begin = (path: string) => {
    const results: { error?: { message: string } }[] = [];
    let consumed = 0;
    const stream = {
      handlers: {} as Stream['handlers'],
      consumed: (bytes: number) => {
        consumed += bytes;
      },
      finish: (result: object) => void results.push(result),
    };
    startPush(stream as unknown as Stream, { path: join(dir, path), owner: '' }, false);
    return { stream, results, consumed: () => consumed };
  };
  const whole = begin('alone');
  for (let at = 0; at < 600; at++) whole.stream.handlers.data?.(0, TWO.subarray(at, at + 1));
  whole.stream.handlers.data?.(0, TWO.subarray(600));
  t.equal(whole.consumed(), TWO.length);
  whole.stream.handlers.end?.(0);
  t.match(whole.results, [{ filePush: { files: 2 } }]);
  const one = begin('one');
  one.stream.handlers.data?.(0, Buffer.of(1));
  one.stream.handlers.end?.(0);
  t.match(one.results, [{ error: { message: /cut off/ } }]);
  const none = begin('none');
  none.stream.handlers.end?.(0);
  t.match(none.results, [{ error: { message: /empty/ } }]);
});
