// Files that the addon sends by itself: whatever stops it, every byte arrives once and in its place.
import './support/addon-dir.ts';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Channel, DEFAULT_WINDOW_BYTES, type Result, type Stream } from '@sandboxd/proto';
import t from 'tap';
import { addon } from '../../../guest-agent/src/native/addon.ts';
import { run, startLocalAgent } from './support/local-agent.ts';

const SIZE_BYTES = 24 * 2 ** 20 + 4321;

const dir = mkdtempSync(join(tmpdir(), 'relay-file-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const content = randomBytes(SIZE_BYTES);
const path = join(dir, 'file');
writeFileSync(path, content);

let relays = 0;
const { startRelay } = addon;
addon.startRelay = (...all) => {
  relays += 1;
  startRelay(...all);
};

type Pulling = { readonly stream: Stream; readonly done: Promise<Result>; received(): Buffer };

/** `take` says how much of what lies there the client takes now; all at once unless told otherwise. */
function pull(
  channel: Channel,
  maxBytes: number,
  take?: (stream: Stream, heldBytes: number) => void,
  window = 0,
): Pulling {
  const chunks: Buffer[] = [];
  const done = Promise.withResolvers<Result>();
  let heldBytes = 0;
  const stream = channel.open(
    { filePull: { path, maxBytes }, window },
    {
      data: (_flow, chunk) => {
        chunks.push(Buffer.from(chunk));
        heldBytes += chunk.length;
        if (take === undefined) stream.consumed(chunk.length);
      },
      result: done.resolve,
      lost: (loss) => done.reject(new Error(`lost: ${loss.kind}`)),
    },
  );
  if (take !== undefined) {
    const timer = setInterval(() => {
      take(stream, heldBytes);
      heldBytes = 0;
    }, 1);
    void done.promise.finally(() => clearInterval(timer));
  }
  return { stream, done: done.promise, received: () => Buffer.concat(chunks) };
}

t.test('to any length', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const frames = (count: number): number => 3 * 2 ** 20 + count * 65_504;
  const lengths = [
    SIZE_BYTES,
    SIZE_BYTES - 1,
    5_000_001,
    ...[0, 1, 6, 7].flatMap((count) => [-1, 0, 1].map((more) => frames(count) + more)),
  ];
  for (const length of lengths) {
    const before = relays;
    const { done, received } = pull(channel, length);
    t.match(await done, { filePull: {} });
    t.ok(received().equals(content.subarray(0, length)), `${length} bytes`);
    t.ok(relays > before, 'by the addon');
  }
  t.same(agent.faults, []);
});

t.test('other calls meanwhile take it out of the addon’s hands, again and again', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = relays;
  for (let round = 0; round < 4; round++) {
    let isOver = false;
    const { done, received } = pull(channel, 2 ** 40, (stream, heldBytes) => stream.consumed(heldBytes));
    const others = async (): Promise<void> => {
      for (let n = 0; !isOver; n++) {
        await channel.ping();
        t.equal((await run(channel, ['echo', `${n}`]).done).out, `${n}\n`);
      }
    };
    const all = Promise.all([others(), others()]);
    t.match(await done, { filePull: {} });
    isOver = true;
    await all;
    t.ok(received().equals(content), `round ${round}`);
  }
  t.ok(relays > before + 4, `${relays - before} times`);
  t.same(agent.faults, []);
});

t.test('credit in odd pieces, and none for a while', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = relays;
  let dueBytes = 0;
  let turn = 0;
  const { done, received } = pull(channel, 2 ** 40, (stream, heldBytes) => {
    dueBytes += heldBytes;
    turn += 1;
    if (turn % 40 < 10) return;
    const bytes = Math.min(dueBytes, 1 + ((turn * 77_777) % DEFAULT_WINDOW_BYTES));
    dueBytes -= bytes;
    stream.consumed(bytes);
  });
  t.match(await done, { filePull: {} });
  t.ok(received().equals(content));
  t.ok(relays > before, `${relays - before} times`);
  t.same(agent.faults, []);
});

t.test('a window of its own, which is never passed', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  for (const window of [70_000, 5 * 2 ** 20, 2 ** 24]) {
    const before = relays;
    let dueBytes = 0;
    let mostBytes = 0;
    let turn = 0;
    const take = (stream: Stream, heldBytes: number): void => {
      dueBytes += heldBytes;
      mostBytes = Math.max(mostBytes, dueBytes);
      // Slowly at first, so that the window fills.
      if (++turn < 200 && dueBytes < window / 2) return;
      stream.consumed(dueBytes);
      dueBytes = 0;
    };
    const { done, received } = pull(channel, 2 ** 40, take, window);
    t.match(await done, { filePull: {} });
    t.ok(received().equals(content), `a window of ${window}`);
    t.ok(mostBytes <= window && mostBytes > window / 4, `${mostBytes} bytes at once`);
    t.ok(relays > before, 'by the addon');
  }
  t.same(agent.faults, []);
});

t.test('a pull that is cancelled, and the next one', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  for (let round = 0; round < 10; round++) {
    const { stream, done } = pull(channel, 2 ** 40);
    await sleep(round);
    stream.cancel();
    const result = await done;
    t.ok(result.error?.code === 'cancelled' || 'filePull' in result, JSON.stringify(result).slice(0, 80));
    const { done: again, received } = pull(channel, 1_000_003);
    await again;
    t.ok(received().equals(content.subarray(0, 1_000_003)));
  }
  t.same(agent.faults, []);
});

t.test('a file that becomes shorter is an error, and not a byte too many', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = relays;
  // So much that the addon takes over, and then nothing.
  let leftBytes = 2 * DEFAULT_WINDOW_BYTES;
  const { stream, done, received } = pull(channel, 2 ** 40, (stream, heldBytes) => {
    if (leftBytes > 0) stream.consumed(heldBytes);
    leftBytes -= heldBytes;
  });
  let seen = -1;
  for (let looks = 0; looks < 100 && (received().length > seen || relays === before); looks++) {
    seen = received().length;
    await sleep(100);
  }
  t.ok(relays > before);
  seen = received().length;
  const kept = received().length + 2_000_000;
  truncateSync(path, kept);
  const timer = setInterval(() => stream.consumed(DEFAULT_WINDOW_BYTES), 2);
  t.match(await done, { error: { code: 'conflict', message: /became shorter/ } });
  clearInterval(timer);
  t.ok(received().equals(content.subarray(0, kept)), `${received().length} of ${kept}`);
  writeFileSync(path, content);
  t.same(agent.faults, []);
});
