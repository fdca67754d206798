// A paused guest of another host: its memory is the one that was paused there, or nothing is placed.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { ChunkChecksums } from '../../../../../host-agent/src/sandboxes/saved/chunk-checksums.ts';
import {
  memoryDigestOf,
  readPaused,
  verifyPaused,
} from '../../../../../host-agent/src/sandboxes/saved/paused.ts';
import { placePaused } from '../../../../../host-agent/src/sandboxes/saved/place-paused.ts';

t.test('memory with another digest is refused, before anything is published', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'place-paused-'));
  t.teardown(() => rmSync(root, { recursive: true }));
  const dir = join(root, 'paused');
  mkdirSync(join(dir, '1'), { recursive: true });
  const [memory, layerPath] = [join(dir, '1/memory'), join(root, 'layer')];
  const content = Buffer.alloc(3 * 65_536 + 5, 'memory');
  for (const path of [join(dir, '1/state'), layerPath]) writeFileSync(path, 'x');
  writeFileSync(memory, content);
  const { digest } = await ChunkChecksums.of(memory);
  const names = { memoryName: 'memory', stateName: 'state', compatibility: {}, needsResync: false };
  const input = { dir, layerPath, ...names, digest, signal: new AbortController().signal };

  content[2 * 65_536] = 0;
  writeFileSync(memory, content);
  const other = await ChunkChecksums.of(memory);
  for (const checksums of [undefined, other])
    await t.rejects(placePaused({ ...input, checksums }), { code: 'internal', details: { stage: 'store' } });
  t.equal(await readPaused(dir), undefined);

  await placePaused({ ...input, checksums: other, digest: other.digest });
  await verifyPaused(dir);
  t.equal(await memoryDigestOf(dir), other.digest);
  await placePaused({ ...input, checksums: undefined, digest: undefined });
});
