// Container images: a create from an image against one from a profile, and a pull against a sequence of well-known
// tools.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdDecompressSync } from 'node:zlib';
import { BAKED_DATA_DIR, type Daemon } from '../support/daemon.ts';
import { untilSettled } from '../support/templates.ts';
import { until } from '../support/until.ts';
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

/** The trees of the smallest and the largest available profile: Debian as in `base`, and with Python. */
function readTrees(): Record<'smallest' | 'largest', Buffer> {
  const dir = join(BAKED_DATA_DIR, 'profiles/.trees');
  const trees = readdirSync(dir).filter((name) => name.endsWith('.tar.zst'));
  const bySize = trees.map((name) => join(dir, name)).sort((a, b) => statSync(a).size - statSync(b).size);
  const read = (path = '') => zstdDecompressSync(readFileSync(path));
  return { smallest: read(bySize[0]), largest: read(bySize.at(-1)) };
}

const STEPS = ['skopeo copy', 'umoci unpack', 'mke2fs -d'] as const;

/** The steps without sandboxd: fetch, unpack, make a file system. Milliseconds of each. */
async function byHand(name: string): Promise<number[]> {
  const dir = mkdtempSync(join(tmpdir(), 'by-hand-'));
  try {
    const layout = join(dir, 'layout');
    const bundle = join(dir, 'bundle');
    const image = ['-q', '-d', join(bundle, 'rootfs'), '-t', 'ext4', join(dir, 'image'), '2G'];
    const run = (program: string, ...args: readonly string[]) =>
      timed(() => execFileSync(program, args, { stdio: 'pipe' }));
    return [
      await timed(() => skopeo('copy', '--src-tls-verify=false', `docker://${name}`, `oci:${layout}:v1`)),
      await run('umoci', 'unpack', '--image', `${layout}:v1`, bundle),
      await run('mke2fs', ...image),
    ];
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** Waits until both have their own templates, which are created in the background after the second use. */
async function untilTemplates(daemon: Daemon, rootfs: readonly string[]): Promise<void> {
  const isThere = (name: string) =>
    daemon.log.some(
      ({ msg, rootfs, hasNetwork, isFirst }) =>
        msg === 'template made' && rootfs === name && hasNetwork === false && isFirst !== true,
    );
  await until(() => rootfs.every(isThere), `templates of ${rootfs.join(' and ')}`, 300_000);
}

export async function benchImages(daemon: Daemon, pulls: number, creates: number): Promise<Section[]> {
  const { api } = daemon;
  const ends: (() => unknown)[] = [];
  const world = new World({ teardown: (end) => ends.push(end) });
  try {
    const registry = await world.startRegistry();
    const { smallest, largest } = readTrees();
    const push = (repository: string, tar: Buffer): string => {
      const name = `${registry}/${repository}:v1`;
      const layout = makeLayoutOf(world.path('layout'), { layers: [tar] });
      skopeo('copy', '--dest-tls-verify=false', `oci:${layout}:latest`, `docker://${name}`);
      return name;
    };
    const large = push('large', largest);

    const pull: Pairs = { ours: [], theirs: [] };
    const steps: number[][] = [];
    const converting: number[] = [];
    for (let round = 0; round < pulls; round++) {
      const hand = await byHand(large);
      steps.push(hand);
      pull.theirs.push(sum(hand));
      pull.ours.push(await timed(() => api.ask('pullImage', { body: { ref: large } })));
      converting.push(Number(daemon.log.findLast(({ msg }) => msg === 'image converted')?.ms));
      await api.ask('deleteImage', { params: { ref: large } });
    }

    const name = push('base', smallest);
    const create: Pairs = { ours: [], theirs: [] };
    const one = (body: Record<string, unknown>) => timed(async () => made.push((await api.create(body)).id));
    const made: string[] = [];
    const image = { image: { oci: name } };
    const endAll = async () => {
      for (const id of made.splice(0)) await api.delete(id);
    };
    for (const body of [image, image, {}, {}]) await one(body);
    await endAll();
    await untilTemplates(daemon, [name, 'base']);
    await untilSettled(daemon);
    for (let round = 0; round < creates; round++) {
      // Each is first equally often, because the clean-up after a delete slows the next create.
      const first = await one(round % 2 === 0 ? {} : image);
      const second = await one(round % 2 === 0 ? image : {});
      await endAll();
      const [theirs, ours] = round % 2 === 0 ? [first, second] : [second, first];
      create.theirs.push(theirs);
      create.ours.push(ours);
    }
    const size = `${Math.round(largest.length / MIB)} MiB unpacked, ${Math.round(gzipSync(largest, { level: 1 }).length / MIB)} MiB packed`;
    const seconds = (values: readonly number[]) =>
      spread(
        values.map((ms) => ms / 1000),
        1,
        's',
      );
    return [
      {
        title: 'Create from an image',
        note: `${creates} pairs in turn, once both have a template of their own: the default profile, and an image of the same packages that was pulled before. Ratio: median of the pairs'; to reach: at most 1.1.`,
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
          ...STEPS.map((step, at) => [`\`${step}\``, seconds(steps.map((each) => each[at] ?? Number.NaN))]),
          ['all three', seconds(pull.theirs)],
          ['`POST /images`', seconds(pull.ours)],
          [
            'of that: skopeo and the rest',
            seconds(pull.ours.map((ms, at) => ms - (converting[at] ?? Number.NaN))),
          ],
          ['of that: the conversion', seconds(converting)],
          ['**pull ÷ tools**', `**${ratio(pull)}**`],
        ],
      },
    ];
  } finally {
    for (const end of ends.reverse()) await end();
  }
}
