// `sandboxd store …`: maintenance of the snapshot store, from any host that has its key. No daemon is needed.
import { AppError } from '../../lib/errors.ts';
import { openSnapshotStore, type StoreCollector } from '../../snapshot-store/index.ts';
import type { Command, Group } from '../command.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';

const MIB = 2 ** 20;
const JSON_FLAG = { json: { type: 'boolean', help: 'print the result as JSON' } } as const;
const FLAGS = { ...SHARED_FLAGS, ...JSON_FLAG };

type Use = (collector: StoreCollector, config: ReturnType<typeof loadSharedConfig>) => Promise<void>;

async function withCollector(input: Parameters<Command['run']>[0], use: Use): Promise<void> {
  const config = loadSharedConfig(input);
  const { snapshotStore } = config;
  if (snapshotStore === undefined)
    throw new AppError('unsupported', 'there is no snapshot store; set snapshot_store as for the daemon');
  const { collector, store } = openSnapshotStore(snapshotStore);
  try {
    await use(collector, config);
  } finally {
    collector.close();
    store.close();
  }
}

function print(isJson: boolean, value: unknown, lines: readonly string[]): void {
  const text = isJson ? JSON.stringify(value, null, 2) : lines.join('\n');
  process.stdout.write(`${text}\n`);
}

const verify: Command = {
  name: 'verify',
  operands: '',
  summary:
    'look for what every snapshot, image and template needs; fails when something is missing or damaged',
  flags: {
    ...FLAGS,
    full: { type: 'boolean', help: 'read and decrypt all chunks, too: the whole store is transferred' },
  },
  run: (input, signal) =>
    withCollector(input, async (collector) => {
      const found = await collector.verify(input.isSet('full'), signal);
      const { snapshots, images, templates, chunks, problems } = found;
      const verdict = problems.length === 0 ? 'nothing is missing' : 'DAMAGED';
      const how = input.isSet('full') ? 'read' : 'looked for';
      print(input.isSet('json'), { snapshots, images, templates, chunks, problems }, [
        `${snapshots} snapshots, ${images} images, ${templates} templates, ${chunks} chunks ${how}: ${verdict}`,
        ...problems.map(({ snapshot, problem }) => `problem: ${snapshot}: ${problem}`),
      ]);
      if (problems.length > 0) process.exitCode = 1;
    }),
};

const gc: Command = {
  name: 'gc',
  operands: '',
  summary: 'delete chunks that no snapshot or image needs and that are a day old; hosts may go on meanwhile',
  flags: FLAGS,
  run: (input, signal) =>
    withCollector(input, async (collector) => {
      const collected = await collector.collect(signal);
      const { snapshots, images, templates, chunks, waiting, removed, removedBytes, problems } = collected;
      const counts = { snapshots, images, templates, chunks, waiting, removed };
      const result = { ...counts, removed_bytes: removedBytes, problems };
      print(input.isSet('json'), result, [
        `${snapshots} snapshots, ${images} images, ${templates} templates, ${chunks} chunks: ` +
          `${removed} deleted (${toMib(removedBytes)}), ` +
          `${waiting} unused ones are younger than a day`,
        ...problems.map((problem) => `problem: ${problem}; no image is removed until that object is deleted`),
      ]);
    }),
};

const stats: Command = {
  name: 'stats',
  operands: '',
  summary: 'show how many snapshots, images and templates the store has, and what they share',
  flags: FLAGS,
  run: (input, signal) =>
    withCollector(input, async (collector, config) => {
      const found = await collector.stats(signal);
      const {
        snapshots,
        images,
        templates,
        chunks,
        chunkBytes,
        contentBytes,
        imageBytes,
        imageNames,
        byTenant,
      } = found;
      const limitBytes = config.images?.sharedBytes ?? 0;
      const tenants = byTenant.map(({ tenant = '', chunkBytes, ...counts }) => ({
        ...{ tenant, ...counts, chunk_bytes: chunkBytes },
      }));
      const bytes = {
        ...{ chunk_bytes: chunkBytes, content_bytes: contentBytes, image_bytes: imageBytes },
        ...{ image_limit_bytes: limitBytes, image_names: imageNames },
      };
      const result = { snapshots, images, templates, chunks, ...bytes, tenants };
      print(input.isSet('json'), result, [
        `${snapshots} snapshots and ${images} images of ${toMib(contentBytes)} take ${chunks} chunks of ${toMib(chunkBytes)}`,
        ...(templates > 0 ? [`${templates} templates, of which snapshots are the builds`] : []),
        ...(images + imageNames > 0
          ? [
              `images: ${images} with ${imageNames} names take ${toMib(imageBytes)}, ` +
                (limitBytes > 0 ? `and may take ${toMib(limitBytes)}` : 'without a limit'),
            ]
          : []),
        ...tenants.map(
          ({ tenant, snapshots, chunks, chunk_bytes }) =>
            `${tenant || '(no tenant)'}: ${snapshots} snapshots, ${chunks} chunks of ${toMib(chunk_bytes)}`,
        ),
      ]);
    }),
};

function toMib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}

export const store: Group = {
  name: 'store',
  summary: 'The snapshot store (snapshot_store), with the settings of the daemon.',
  commands: [verify, gc, stats],
};
