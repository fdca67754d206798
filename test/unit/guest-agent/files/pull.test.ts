// One file, over links that read natively and over others: every byte exactly once and in order, and no byte that the
// file does not have.
import '../support/addon-dir.ts';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Channel, DEFAULT_WINDOW_BYTES, type Result, type Stream } from '@sandboxd/proto';
import t from 'tap';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { run, startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';

const SIZE_BYTES = 8 * 2 ** 20 + 4321;

const dir = mkdtempSync(join(tmpdir(), 'pull-'));
t.teardown(() => rmSync(dir, { recursive: true }));
// No byte is zero, so that a padding byte is visible.
const content = randomBytes(SIZE_BYTES).map((byte) => byte || 1);
const path = join(dir, 'file');
writeFileSync(path, content);

type Pulling = { readonly stream: Stream; readonly done: Promise<Result>; received(): Buffer };

/** `take` returns how many of the available bytes the client reads now; by default all. */
function pull(
  channel: Channel,
  maxBytes = 2 ** 40,
  take?: (stream: Stream, heldBytes: number) => void,
): Pulling {
  const chunks: Buffer[] = [];
  const done = Promise.withResolvers<Result>();
  let heldBytes = 0;
  const stream = channel.open(
    { filePull: { path, maxBytes } },
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

for (const isEmulated of [false, true]) {
  const reader = isEmulated ? 'the addon reads' : 'JavaScript reads';
  t.test(`${reader}: to any length`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const frames = [1, 6, 7].flatMap((count) => [-1, 0, 1].map((more) => count * 65_536 + more));
    for (const length of [SIZE_BYTES + 1, SIZE_BYTES, SIZE_BYTES - 1, 5_000_001, 1, ...frames]) {
      const { done, received } = pull(channel, length);
      t.match(await done, { filePull: {} });
      t.ok(received().equals(content.subarray(0, length)), `${length} bytes`);
    }
    t.same(agent.faults, []);
  });

  t.test(`${reader}: other calls meanwhile`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
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
    t.ok(received().equals(content));
    t.same(agent.faults, []);
  });

  t.test(`${reader}: credit in odd pieces, and none for a while`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
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
    t.same(agent.faults, []);
  });

  t.test(`${reader}: a pull that is cancelled, and the next one`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const before = openDescriptors();
    for (let round = 0; round < 5; round++) {
      const { stream, done } = pull(channel);
      await sleep(round);
      stream.cancel();
      const result = await done;
      t.ok(result.error?.code === 'cancelled' || result.filePull, JSON.stringify(result).slice(0, 80));
      const { done: again, received } = pull(channel, 1_000_003);
      await again;
      t.ok(received().equals(content.subarray(0, 1_000_003)));
    }
    t.equal(openDescriptors(), before, 'no file stays open');
    t.same(agent.faults, []);
  });

  t.test(`${reader}: a file that becomes shorter is an error, and not a byte too many`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    for (const keptBytes of [0, 1, 2_000_000, SIZE_BYTES - 1]) {
      const { available, openFile } = addon;
      let hasShrunk = false;
      // As another program of the guest could: directly after the agent's fstat.
      const shrink = <T>(looked: T): T => {
        if (!hasShrunk) truncateSync(path, keptBytes);
        hasShrunk = true;
        return looked;
      };
      addon.available = (fd) => shrink(available(fd));
      addon.openFile = (...all) => {
        const fd = openFile(...all);
        queueMicrotask(() => shrink(fd));
        return fd;
      };
      const { done, received } = pull(channel);
      const result = await done.finally(() => Object.assign(addon, { available, openFile }));
      t.match(result, { error: { code: 'conflict', message: /became shorter/ } }, `${keptBytes} are left`);
      t.ok(hasShrunk && received().length < SIZE_BYTES, `${received().length} bytes arrived`);
      t.ok(received().equals(content.subarray(0, received().length)), 'and all of them were in the file');
      writeFileSync(path, content);
    }
    t.same(agent.faults, []);
  });

  t.test(`${reader}: one that becomes shorter while its client waits`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const { stream, done, received } = pull(channel, 2 ** 40, () => {});
    for (let seen = -1; received().length > seen; await sleep(100)) seen = received().length;
    const keptBytes = received().length + 2_000_000;
    truncateSync(path, keptBytes);
    const timer = setInterval(() => stream.consumed(DEFAULT_WINDOW_BYTES), 2);
    t.match(await done, { error: { code: 'conflict', message: /became shorter/ } });
    clearInterval(timer);
    t.ok(received().equals(content.subarray(0, keptBytes)), `${received().length} of ${keptBytes}`);
    writeFileSync(path, content);
    t.same(agent.faults, []);
  });

  t.test(`${reader}: a file that cannot be read on`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const { openFile, read, writeFrom } = addon;
    let file: number | undefined;
    let calls = 0;
    addon.openFile = (...all) => {
      file = openFile(...all);
      return file;
    };
    addon.read = (fd, ...range) => {
      if (fd !== file || ++calls < 3) return read(fd, ...range);
      throw Object.assign(new Error('EIO: read'), { code: 'EIO' });
    };
    addon.writeFrom = (...all) => (++calls < 3 ? writeFrom(...all) : -constants.errno.EIO);
    const { done, received } = pull(channel);
    const result = await done.finally(() => Object.assign(addon, { openFile, read, writeFrom }));
    t.match(result.error?.message, /file.*(EIO|error)/i, JSON.stringify(result));
    t.ok(received().length < SIZE_BYTES, `${received().length} bytes arrived`);
    t.ok(received().equals(content.subarray(0, received().length)), 'and all of them were in the file');
  });
}
