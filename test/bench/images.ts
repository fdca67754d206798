// Container images: a create from one against a create from a profile, and a pull against well-known tools in a row.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdDecompressSync } from 'node:zlib';
import { BAKED_DATA_DIR, type Daemon } from '../support/daemon.ts';
import { makeLayoutOf, skopeo, World } from '../unit/host-agent/images/world.ts';
import { median, type Section, spread } from './stats.ts';

const MIB = 2 ** 20;

type Pairs = { readonly ours: number[]; readonly theirs: number[] };

const ratio = ({ ours, theirs }: Pairs): string =>
  median(ours.map((value, at) => value / (theirs[at] ?? Number.NaN))).toFixed(2);

async function timed(work: () => unknown): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** The tree of the largest profile that is here, as one layer. */
function readTree(): Buffer {
  const dir = join(BAKED_DATA_DIR, 'profiles/.trees');
  const trees = readdirSync(dir).filter((name) => name.endsWith('.tar.zst'));
  const [largest] = trees.map((name) => join(dir, name)).sort((a, b) => statSync(b).size - statSync(a).size);
  if (largest === undefined) throw new Error('no profile is baked');
  return zstdDecompressSync(readFileSync(largest));
}

/** What one does without sandboxd: fetch, unpack, make a file system. */
function byHand(name: string): void {
  const dir = mkdtempSync(join(tmpdir(), 'by-hand-'));
  try {
    const layout = join(dir, 'layout');
    skopeo('copy', '--src-tls-verify=false', `docker://${name}`, `oci:${layout}:v1`);
    mkdirSync(join(dir, 'bundle'));
    execFileSync('umoci', ['unpack', '--image', `${layout}:v1`, join(dir, 'bundle')], { stdio: 'pipe' });
    const args = ['-q', '-d', join(dir, 'bundle/rootfs'), '-t', 'ext4', join(dir, 'image'), '2G'];
    execFileSync('mke2fs', args, { stdio: 'pipe' });
  } finally {
    rmSync(dir, { recursive: true });
  }
}

export async function benchImages({ api }: Daemon, pulls: number, creates: number): Promise<Section[]> {
  const ends: (() => unknown)[] = [];
  const world = new World({ teardown: (end) => ends.push(end) });
  try {
    const registry = await world.startRegistry();
    const name = `${registry}/tree:v1`;
    const tar = readTree();
    const layout = makeLayoutOf(world.path('layout'), { layers: [tar] });
    skopeo('copy', '--dest-tls-verify=false', `oci:${layout}:latest`, `docker://${name}`);

    const pull: Pairs = { ours: [], theirs: [] };
    for (let round = 0; round < pulls; round++) {
      pull.theirs.push(await timed(() => byHand(name)));
      pull.ours.push(await timed(() => api.ask('pullImage', { body: { ref: name } })));
      if (round < pulls - 1) await api.ask('deleteImage', { params: { ref: name } });
    }

    const create: Pairs = { ours: [], theirs: [] };
    const one = (body: Record<string, unknown>) => timed(async () => made.push((await api.create(body)).id));
    const made: string[] = [];
    for (let round = 0; round <= creates; round++) {
      const image = { image: { oci: name } };
      // Each is first as often as the other: what a delete leaves to be done slows who follows it.
      const first = await one(round % 2 === 0 ? {} : image);
      const second = await one(round % 2 === 0 ? image : {});
      for (const id of made.splice(0)) await api.delete(id);
      const [theirs, ours] = round % 2 === 0 ? [first, second] : [second, first];
      // The first ones make what the others use.
      if (round === 0) continue;
      create.theirs.push(theirs);
      create.ours.push(ours);
    }
    const size = `${Math.round(tar.length / MIB)} MiB unpacked, ${Math.round(gzipSync(tar, { level: 1 }).length / MIB)} MiB packed`;
    return [
      {
        title: 'Create from an image',
        note: `${creates} rounds after one warm-up, in turn: the default profile, and an image that was pulled before. To reach: at most 1.1 times as long.`,
        head: ['', 'median (min–max)'],
        rows: [
          ['from the profile', spread(create.theirs, 0, 'ms')],
          ['from the image', spread(create.ours, 0, 'ms')],
          ['**image ÷ profile**', `**${ratio(create)}**`],
        ],
      },
      {
        title: 'Pull of an image',
        note: `${pulls} rounds in turn, from a registry on loopback: one layer, the tree of the largest profile that is baked (${size}). To reach: at most as long as the tools in a row.`,
        head: ['', 'median (min–max)'],
        rows: [
          [
            '`skopeo copy` + `umoci unpack` + `mke2fs -d`',
            spread(
              pull.theirs.map((ms) => ms / 1000),
              1,
              's',
            ),
          ],
          [
            '`POST /images`',
            spread(
              pull.ours.map((ms) => ms / 1000),
              1,
              's',
            ),
          ],
          ['**pull ÷ tools**', `**${ratio(pull)}**`],
        ],
      },
    ];
  } finally {
    for (const end of ends.reverse()) await end();
  }
}
