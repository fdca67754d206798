// A directory as a tar archive, over a real socket: what is in it, however it is taken, and nothing left open.
import '../support/addon-dir.ts';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Channel, Result, Stream } from '@sandboxd/proto';
import t from 'tap';
import { until } from '../../../support/until.ts';
import { startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';
import { readArchive } from '../support/tar-blocks.ts';

const dir = mkdtempSync(join(tmpdir(), 'directory-pull-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const large = 'l'.repeat(3_000_001);
mkdirSync(join(dir, 'sub/empty'), { recursive: true });
writeFileSync(join(dir, 'large'), large);
writeFileSync(join(dir, 'sub/small'), 'small', { mode: 0o640 });
utimesSync(join(dir, 'sub/small'), 1_000_000_000, 1_000_000_000);
writeFileSync(join(dir, 'sub/none'), '');
symlinkSync('sub/small', join(dir, 'link'));

type Pulling = { readonly stream: Stream; readonly done: Promise<Result>; received(): Buffer };

function pull(channel: Channel, path: string, isTaking = true): Pulling {
  const chunks: Buffer[] = [];
  const done = Promise.withResolvers<Result>();
  const stream = channel.open(
    { dirPull: { path } },
    {
      data: (_flow, chunk) => {
        chunks.push(Buffer.from(chunk));
        if (isTaking) stream.consumed(chunk.length);
      },
      result: done.resolve,
      lost: (loss) => done.reject(new Error(`lost: ${loss.kind}`)),
    },
  );
  return { stream, done: done.promise, received: () => Buffer.concat(chunks) };
}

t.test('everything that is in it', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = openDescriptors();
  const { done, received } = pull(channel, dir);
  t.match(await done, { dirPull: {} });
  const entries = readArchive(received()).map(({ name, type, target, content }) => [
    name.replace(/\/$/, ''),
    type,
    target,
    content,
  ]);
  t.same(entries.filter(([name]) => name !== '' && name !== '.').sort(), [
    ['large', 'file', '', large],
    ['link', 'symlink', 'sub/small', ''],
    ['sub', 'directory', '', ''],
    ['sub/empty', 'directory', '', ''],
    ['sub/none', 'file', '', ''],
    ['sub/small', 'file', '', 'small'],
  ]);
  const small = readArchive(received()).find(({ name }) => name === 'sub/small');
  t.match(small, { mode: 0o640, mtimeSeconds: 1_000_000_000 });
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});

t.test('one that nobody takes, is cancelled, or is none leaves nothing open', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = openDescriptors();
  for (let round = 0; round < 5; round++) {
    const { stream, done, received } = pull(channel, dir, false);
    await until(() => received().length > 0, 'the first bytes');
    stream.cancel();
    t.match(await done, { error: { code: 'cancelled' } });
  }
  t.match(await pull(channel, join(dir, 'none')).done, { error: { code: 'not_found' } });
  t.match(await pull(channel, join(dir, 'large')).done, { error: { code: 'not_directory' } });
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});
