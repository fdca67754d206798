// Members as the client packs them, with values that tar-stream alone would change.
import { buffer } from 'node:stream/consumers';
import { readArchive } from '@sandboxd/api/archive';
import t from 'tap';
import { END_MARK, packFile, packMember } from '../../../client/src/files/one-file.ts';
import { readArchive as readInGuest } from '../guest-agent/support/tar-blocks.ts';

const FILE = { name: 'a', size: 0, mode: 0o644, type: 'file', mtime: new Date(0) } as const;

t.test('modes, times and owners arrive in the guest as they are', async (t) => {
  for (const [mode, seconds] of [
    [0, 0],
    [0o4755, 1_000_000_000],
    [0o600, 2 ** 31],
    [0o600, 2 ** 33],
    [0o600, -5],
    [0o7777, -(2 ** 33)],
  ] as const) {
    const mtime = new Date(seconds * 1000);
    const ids = { uid: 2 ** 31, gid: 300_000 };
    const bytes = await buffer(packMember({ ...FILE, ...ids, name: 'ü'.repeat(90), mode, mtime }));
    const whole = Buffer.concat([bytes, END_MARK]);
    const [entry] = readInGuest(whole);
    t.match([entry?.mode, entry?.mtimeSeconds], [mode, seconds]);
    t.equal(Buffer.from(entry?.name ?? '', 'latin1').toString(), 'ü'.repeat(90));
    for await (const { header } of readArchive([whole] as unknown as AsyncIterable<Uint8Array>))
      t.match(header.pax, { uid: `${2 ** 31}`, gid: '300000' });
  }
});

t.test('a body that is longer or shorter than stated is an error', async (t) => {
  async function* body(...parts: string[]) {
    for (const part of parts) yield Buffer.from(part);
  }
  const packed = (sizeBytes: number, ...parts: string[]) =>
    buffer(packFile('a', body(...parts), { mode: 0o644, sizeBytes }));
  const [entry] = readInGuest(await packed(5, 'ab', '', 'cde'));
  t.match(entry, { name: 'a', content: 'abcde' });
  await t.rejects(packed(5, 'abc'), { name: 'SandboxdError', message: /only 3 of its 5 bytes/ });
  await t.rejects(packed(5, 'abc', 'def'), { name: 'SandboxdError', message: /more than its 5 bytes/ });
  await t.rejects(packed(0, 'a'), { message: /more than its 0 bytes/ });
});

t.test('no more is read than is taken, and leaving closes the source', async (t) => {
  let given = 0;
  let isClosed = false;
  async function* body() {
    try {
      for (;;) {
        given += 1;
        yield Buffer.alloc(1 << 16);
      }
    } finally {
      isClosed = true;
    }
  }
  const archive = packFile('a', body(), { mode: 0o644, sizeBytes: 2 ** 40 });
  for await (const _ of archive) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (given > 1) break;
  }
  t.ok(given < 10, `${given} chunks`);
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.ok(isClosed);
});
