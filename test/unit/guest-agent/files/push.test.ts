// Large files during a push, and everything that can interrupt them: over a real socket.
import '../support/addon-dir.ts';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_FRAME_BYTES, PROTOCOL_VERSION, type Result, type Stream } from '@sandboxd/proto';
import t from 'tap';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { dataFrame } from '../../../../proto/src/wire/data-frame.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { makeTar } from '../../../support/files.ts';
import { type LocalAgent, push, run, startLocalAgent } from '../support/local-agent.ts';

const MIB = 2 ** 20;
// Not /tmp, which may be a tmpfs without O_DIRECT.
const dir = await mkdtemp(join(import.meta.dirname, '../../../.tap/link-write-')).catch(() =>
  mkdtemp('/var/tmp/link-write-'),
);
t.teardown(() => rm(dir, { recursive: true, force: true }));

const hasBegun = (name: string): boolean => existsSync(join(dir, name));
const isSame = (name: string, content: Buffer): boolean => readFileSync(join(dir, name)).equals(content);

let linkWrites = 0;
const { startLinkWrite } = addon;
addon.startLinkWrite = (...all) => {
  linkWrites += 1;
  startLinkWrite(...all);
};
t.teardown(() => {
  addon.startLinkWrite = startLinkWrite;
});

for (const isEmulated of [false, true]) {
  const writer = isEmulated ? 'the addon takes it in' : 'JavaScript passes it on';
  t.test(`${writer}: whatever the frames and the bytes are`, async (t) => {
    const before = linkWrites;
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const contents = [randomBytes(9 * MIB + 4097), Buffer.alloc(6 * MIB, 0), randomBytes(12 * MIB)];
    const members = contents.map((content, index) => ({ name: `file-${index}`, content }));
    const archive = await makeTar([...members, { name: 'small', content: 'the last' }]);
    const sizes: Record<string, () => number> = {
      'whole frames': () => 65_536,
      'frames of any size': () => 1 + Math.floor(Math.random() * 65_535),
      'tiny frames among large ones': () =>
        Math.random() < 0.3 ? 1 + Math.floor(Math.random() * 30) : 65_536,
    };
    for (const [name, pieceBytes] of Object.entries(sizes)) {
      const { filePush } = await push(channel, dir, archive, pieceBytes).done;
      t.match(filePush, { files: 4 }, name);
      for (const [index, content] of contents.entries())
        t.ok(isSame(`file-${index}`, content), `file ${index}`);
      t.equal(readFileSync(join(dir, 'small'), 'utf8'), 'the last');
    }
    t.equal(linkWrites > before, isEmulated, `${linkWrites - before} linkWrites`);
    t.same(agent.faults, []);
  });

  t.test(`${writer}: a file that is read meanwhile`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const content = randomBytes(48 * MIB);
    writeFileSync(join(dir, 'read'), content);
    const chunks: Buffer[] = [];
    const { promise, resolve } = Promise.withResolvers<Result>();
    const request = { filePull: { path: join(dir, 'read'), maxBytes: 2 ** 40 } };
    const stream: Stream = channel.open(request, {
      data: (_flow, chunk) => {
        chunks.push(Buffer.from(chunk));
        stream.consumed(chunk.length);
      },
      result: resolve,
    });
    const pushed = push(channel, dir, await makeTar([{ name: 'written', content }]));
    t.match(await pushed.done, { filePush: { files: 1 } });
    t.match(await promise, { filePull: {} });
    t.ok(isSame('written', content));
    t.ok(Buffer.concat(chunks).equals(content));
    t.same(agent.faults, []);
  });

  /** A host simulated byte by byte, in the middle of a push with full frames. */
  async function playHost(agent: LocalAgent, archive: Buffer) {
    const socket = agent.attach();
    const send = (...frames: Parameters<typeof encodeFrame>[0][]): void => {
      for (const frame of frames) socket.write(Buffer.concat(encodeFrame(frame)));
    };
    const hello = (): void => {
      send({ hello: { version: PROTOCOL_VERSION, incarnation: 'one', window: MIB, nonce: randomBytes(16) } });
    };
    hello();
    send({ stream: 1, request: { filePush: { path: dir } } });
    let at = 0;
    const next = (bytes: number): Buffer => {
      at += bytes;
      return Buffer.concat(dataFrame(1, 0, archive.subarray(at - bytes, at)));
    };
    socket.write(next(512));
    return {
      socket,
      hello,
      next,
      async sendFrames(count: number) {
        for (let sent = 0; sent < count; sent++) {
          socket.write(next(65_536));
          await sleep(2);
        }
      },
    };
  }

  for (const last of [0, 1])
    t.test(
      `${writer}: a host that comes back within the frame that would end the file, with ${last}`,
      async (t) => {
        const content = randomBytes(5 * MIB);
        content[content.length - 1] = last;
        const archive = await makeTar([{ name: 'filled-up', content }]);
        const host = await playHost(startLocalAgent(t, { isEmulated }), archive);
        await host.sendFrames(79);
        host.socket.write(host.next(65_536).subarray(0, 30_000));
        for (let waits = 0; !hasBegun('filled-up') && waits < 500; waits++) await sleep(10);
        t.ok(hasBegun('filled-up'));
        host.socket.write(Buffer.alloc(MAX_FRAME_BYTES + 4));
        host.hello();
        for (let waits = 0; existsSync(join(dir, 'filled-up')) && waits < 300; waits++) await sleep(10);
        t.notOk(existsSync(join(dir, 'filled-up')));
      },
    );

  t.test(`${writer}: a host that lost its guest to another, and ends its frame late`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const content = randomBytes(8 * MIB);
    const archive = await makeTar([{ name: 'late', content }]);
    const host = await playHost(agent, archive);
    await host.sendFrames(20);
    const frame = host.next(65_536);
    host.socket.write(frame.subarray(0, 30_000));
    for (let waits = 0; !hasBegun('late') && waits < 500; waits++) await sleep(10);
    t.ok(hasBegun('late'));
    const channel = await agent.connect('two');
    let frames = 0;
    const pushed = push(channel, dir, archive, () => {
      frames += 1;
      if (frames === 90) host.socket.write(frame.subarray(30_000));
      return 65_536;
    });
    t.match(await pushed.done, { filePush: { files: 1 } });
    t.ok(isSame('late', content));
    const closed = once(host.socket, 'close');
    host.socket.destroy();
    await closed;
    await channel.ping();
  });

  t.test(`${writer}: other calls meanwhile, and another push`, async (t) => {
    const agent = startLocalAgent(t, { isEmulated });
    const channel = await agent.connect();
    const contents = [randomBytes(40 * MIB), randomBytes(30 * MIB)];
    const pushes = await Promise.all(
      contents.map(async (content, index) =>
        push(channel, dir, await makeTar([{ name: `busy-${index}`, content }])),
      ),
    );
    for (let n = 0; n < 40; n++) t.equal((await run(channel, ['echo', `${n}`]).done).out, `${n}\n`);
    for (const { done } of pushes) t.match(await done, { filePush: { files: 1 } });
    for (const [index, content] of contents.entries())
      t.ok(isSame(`busy-${index}`, content), `file ${index}`);
    t.same(agent.faults, []);
  });

  t.test(
    `${writer}: a push that is cancelled, cut off, or lost with its host leaves nothing of the file`,
    async (t) => {
      const agent = startLocalAgent(t, { isEmulated });
      let channel = await agent.connect();
      const content = randomBytes(64 * MIB);
      const archive = await makeTar([{ name: 'part', content }]);
      const endless = (): number => (hasBegun('part') ? 1 : 65_536);
      const cancelled = push(channel, dir, archive, endless);
      for (let waits = 0; !hasBegun('part') && waits < 500; waits++) await sleep(10);
      cancelled.stream.cancel();
      t.match(await cancelled.done, { error: { code: 'cancelled' } });
      t.notOk(existsSync(join(dir, 'part')));
      const cut = await push(channel, dir, archive.subarray(0, 20 * MIB + 77)).done;
      t.match(cut, { error: { code: 'invalid', message: /cut off/ } });
      t.notOk(existsSync(join(dir, 'part')));
      const lost = push(channel, dir, archive, endless);
      const failed = t.rejects(lost.done, /lost/);
      for (let waits = 0; !hasBegun('part') && waits < 500; waits++) await sleep(10);
      channel.close(new Error('gone'));
      await failed;
      channel = await agent.connect();
      t.match(await push(channel, dir, archive).done, { filePush: { files: 1 } });
      t.ok(isSame('part', content));
      t.same(agent.faults, []);
    },
  );
}
