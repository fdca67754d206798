// Images of many layers and many files. SOAK=1: 200,000 files and 5 GB of content in 127 layers; otherwise fewer and smaller ones.
// What the converter takes of memory depends on the count of files, not on what is in them or in the layers.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { HELPERS } from '../../../support/helper-programs.ts';
import { scaled } from '../../../support/time-scale.ts';
import { archive, type Member } from '../../guest-agent/support/tar-blocks.ts';
import { makeLayoutOf, World } from './world.ts';

const isSoak = process.env.SOAK === '1';
const LAYERS = 127;
const FILES = isSoak ? 200_000 : 20_000;
/** Of the one large file of each layer; the others have up to 8 KiB. */
const LARGE_BYTES = isSoak ? 35 * 2 ** 20 : 2 ** 16;
/** The runtime, and what it keeps of each file. */
const MOST_MIB = isSoak ? 500 : 200;

t.setTimeout(scaled(isSoak ? 3_600_000 : 300_000));
const world = new World(t);
const noise = randomBytes(LARGE_BYTES);

function contentOf(file: number): Buffer {
  const at = (file * 7919) % (noise.length - 8192);
  return noise.subarray(at, at + ((file * 31) % 8192));
}

function membersOf(layer: number): Member[] {
  const members: Member[] = [{ name: `large-${layer}`, content: noise }];
  for (let file = layer; file < FILES - LAYERS; file += LAYERS)
    members.push({ name: `d${file % 1000}/f${file}`, content: contentOf(file) });
  // Each hides a file of the one below.
  if (layer > 0) members.push({ name: `d${layer - 1}/.wh.f${layer - 1}` });
  return members;
}

function* makeLayers(): Generator<Buffer> {
  for (let layer = 0; layer < LAYERS; layer++) yield archive(membersOf(layer));
}

t.test(`${FILES} files in ${LAYERS} layers`, async (t) => {
  const layout = makeLayoutOf(world.path('layout'), { layers: makeLayers() });
  const peak = world.path('peak');
  const runtime = world.path('runtime');
  const script = `#!/bin/sh\nexec /usr/bin/time -f %M -o ${peak} ${HELPERS.runtime} "$@"\n`;
  writeFileSync(runtime, script, { mode: 0o755 });
  const images = await world.openImages(world.path('data'), { runtime, allowedDirs: [world.dir] });
  const startedAt = performance.now();
  const image = await images.obtainFile(layout);
  const seconds = (performance.now() - startedAt) / 1000;
  const hidden = LAYERS - 1;
  const directories = 1000;
  t.equal(image.record.entries, FILES - hidden + directories);
  const peakMib = Number(readFileSync(peak, 'utf8')) / 1024;
  const { contentBytes, sizeBytes } = image.record;
  t.comment(
    `${contentBytes} bytes of content, ${sizeBytes} of the image, ${seconds.toFixed(1)} s, peak of the converter ${peakMib.toFixed(0)} MiB`,
  );
  t.ok(peakMib < MOST_MIB, `the converter took ${peakMib.toFixed(0)} MiB`);

  const out = world.path('out');
  execFileSync('fsck.erofs', [`--extract=${out}`, images.rootfsPath(image)], { stdio: 'pipe' });
  const found = readdirSync(out, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  t.equal(found.length, FILES - hidden);
  const wrong = found.filter(({ name, parentPath }) => {
    const content = readFileSync(join(parentPath, name));
    return !content.equals(name.startsWith('large-') ? noise : contentOf(Number(name.slice(1))));
  });
  t.same(wrong, []);
  t.notOk(existsSync(join(out, 'd0/f0')));
  await images.close();
});
