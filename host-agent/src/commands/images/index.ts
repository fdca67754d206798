// `sandboxd images …`: container images, from which sandboxes are created.
import { createReadStream } from 'node:fs';
import type { Input } from '@sandboxd/api/command-line';
import { openIsolation } from '../../engines/isolation.ts';
import { confine } from '../../engines/jail/jail.ts';
import { type ImageInfo, type ImageRecord, type Images, openImages } from '../../images/index.ts';
import { NO_FAULTS } from '../../lib/faults.ts';
import { createLogger } from '../../lib/logger.ts';
import type { Command, Group } from '../command.ts';
import { HELPERS } from '../installation.ts';
import { formatMib } from '../profiles/index.ts';
import { loadSharedConfig, SHARED_FLAGS, withStore } from '../shared-config.ts';

const DIGEST_CHARS = 19;
const SIZE_COLUMNS = 10;

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list the stored images',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'print a JSON array' } },
  run: async (input) => {
    const images = await withImages(input, (store) => store.list());
    if (input.isSet('json')) print(JSON.stringify(images, null, 2));
    else for (const image of images) print(toRow(image));
  },
};

const pull: Command = {
  name: 'pull',
  operands: '<reference>…',
  summary: 'pull images with the credentials of this host, even if they are stored already',
  flags: SHARED_FLAGS,
  run: async (input, signal) => {
    await withImages(input, async (store) => {
      for (const name of input.operands)
        print(toRow(await store.pull(name, 'always', { onProgress, signal })));
    });
  },
};

const importArchive: Command = {
  name: 'import',
  operands: '<file|->',
  summary: 'import an image from a tar archive of docker save or of an OCI layout',
  flags: {
    ...SHARED_FLAGS,
    tag: {
      type: 'string',
      placeholder: 'name',
      help: 'the image to import from an archive with several images',
    },
  },
  run: async (input, signal) => {
    const [file = ''] = input.operands;
    const chunks = file === '-' ? process.stdin : createReadStream(file);
    const options = { onProgress, signal };
    print(toRow(await withImages(input, (store) => store.import(chunks, input.text('tag'), options))));
  },
};

const rm: Command = {
  name: 'rm',
  operands: '<reference|digest>…',
  summary: 'remove images, or one of several names of an image; running sandboxes are not affected',
  flags: SHARED_FLAGS,
  run: async (input) => {
    await withImages(input, async (store) => {
      for (const name of input.operands) await store.delete(name);
    });
  },
};

const prune: Command = {
  name: 'prune',
  operands: '',
  summary: 'remove unused images without a name',
  flags: { ...SHARED_FLAGS, all: { type: 'boolean', help: 'also remove unused images with a name' } },
  run: async (input) => {
    const keepsNamed = !input.isSet('all');
    for (const digest of await withImages(input, (store) => store.prune({ keepsNamed }))) print(digest);
  },
};

export const images: Group = {
  name: 'images',
  summary:
    'Container images, from which sandboxes are created. All commands are safe while a daemon uses the data directory.',
  commands: [list, pull, importArchive, rm, prune],
};

function toRow({ digest, refs, sizeBytes }: ImageInfo): string {
  return `${digest.slice(0, DIGEST_CHARS)}  ${formatMib(sizeBytes).padStart(SIZE_COLUMNS)}  ${refs.join(' ') || '-'}`;
}

function onProgress(line: string): void {
  process.stderr.write(`${line}\n`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Calls `use` with the opened image store. AppError when it cannot be opened. */
function withImages<T>(input: Input, use: (images: Images) => T | Promise<T>): Promise<T> {
  const config = loadSharedConfig(input);
  return withStore(input, async (store, dataDir) => {
    const log = createLogger({ level: 'error', format: 'auto' });
    const jailOptions = config.jail && {
      ...config.jail,
      program: HELPERS.jail,
      cgroups: { ...config.jail.cgroups, dir: dataDir },
    };
    const { jail } = await openIsolation({ jail: jailOptions, isRequired: false, log });
    const images = await openImages({
      dataDir,
      records: store.table<ImageRecord>('images'),
      maxBytes: config.images?.diskBytes ?? 0,
      allowedDirs: [],
      converter: {
        runtime: HELPERS.runtime,
        script: HELPERS.converter,
        confine: jail && ((command) => confine(jail, command)),
      },
      faults: NO_FAULTS,
      log,
    });
    try {
      return await use(images);
    } finally {
      await images.stop();
    }
  });
}
