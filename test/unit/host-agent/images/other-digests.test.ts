// Images that are named by another digest than SHA-256 (opencontainers/image-spec has two): refused as what they are.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { image, manifest, put, writeLayout } from './lists.ts';
import { World } from './world.ts';

t.setTimeout(scaled(120_000));
const world = new World(t);
const images = await world.openImages(world.path('data'), { allowedDirs: [world.dir] });
t.teardown(() => images.close());

const digest = `sha512:${'0'.repeat(128)}`;
const config = put('{"os":"linux","architecture":"amd64"}', 'application/vnd.oci.image.config.v1+json');
const layer = { mediaType: 'application/vnd.oci.image.layer.v1.tar', digest, size: 1 };

async function* tarOf(dir: string): AsyncGenerator<Buffer> {
  yield execFileSync('tar', ['-C', dir, '-c', '.'], { maxBuffer: 2 ** 28 });
}

for (const [what, listed, message] of [
  ['an image', { ...image('file'), digest }, /^the (?:archive|directory) names its images by sha512; only /],
  ['a layer', manifest({ config, layers: [layer] }), /is damaged: its blobs are named by sha512; only /],
] as const) {
  t.test(`${what} named by SHA-512`, async (t) => {
    const layout = writeLayout(world.path('layout'), [listed]);
    const problem = { code: 'invalid_argument', message };
    await t.rejects(images.obtainFile(layout), problem);
    await t.rejects(images.import(tarOf(layout), undefined), problem);
  });
}
