// `sandboxd images …`: the container images that sandboxes are made of.
import { createReadStream } from 'node:fs';
import type { ImageInfo } from '../../images/index.ts';
import { type Command, type Group, type Input, UsageError } from '../command.ts';
import { formatMib } from '../profiles/format.ts';
import { SHARED_FLAGS } from '../shared-config.ts';
import { withImages } from './store.ts';

const DIGEST_CHARS = 19;
const SIZE_COLUMNS = 10;

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'show the images that are here',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'as one JSON array' } },
  run: async (input) => {
    const images = await withImages(input, (store) => store.list());
    if (input.isSet('json')) print(JSON.stringify(images, null, 2));
    else for (const image of images) print(toRow(image));
  },
};

const pull: Command = {
  name: 'pull',
  operands: '<reference>…',
  summary: 'pull images with the credentials of this host, also when they are here',
  flags: SHARED_FLAGS,
  run: async (input, signal) => {
    const names = requireNames(input);
    await withImages(input, async (store) => {
      for (const name of names) print(toRow(await store.pull(name, 'always', { onProgress, signal })));
    });
  },
};

const importArchive: Command = {
  name: 'import',
  operands: '<file|->',
  summary: 'take an image from what docker save or an OCI layout in a tar archive holds',
  flags: {
    ...SHARED_FLAGS,
    tag: { type: 'string', placeholder: 'name', help: 'which one, of an archive that holds several' },
  },
  run: async (input, signal) => {
    const [file = '', ...more] = requireNames(input);
    if (more.length > 0) throw new UsageError('one archive is needed, or - for standard input');
    const pieces = file === '-' ? process.stdin : createReadStream(file);
    const asking = { onProgress, signal };
    print(toRow(await withImages(input, (store) => store.import(pieces, input.text('tag'), asking))));
  },
};

const rm: Command = {
  name: 'rm',
  operands: '<reference|digest>…',
  summary: 'remove images, or one of several names of an image; what runs from them goes on',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const names = requireNames(input);
    await withImages(input, async (store) => {
      for (const name of names) await store.delete(name);
    });
  },
};

const prune: Command = {
  name: 'prune',
  operands: '',
  summary: 'remove images that have no name and that nothing runs from',
  flags: { ...SHARED_FLAGS, all: { type: 'boolean', help: 'also those with a name' } },
  run: async (input) => {
    const isNamedKept = !input.isSet('all');
    for (const digest of await withImages(input, (store) => store.prune({ isNamedKept }))) print(digest);
  },
};

export const images: Group = {
  name: 'images',
  summary:
    'The container images that sandboxes are made of. All of this is safe while a daemon uses the data directory.',
  commands: [list, pull, importArchive, rm, prune],
};

function requireNames(input: Input): readonly string[] {
  if (input.names.length > 0) return input.names;
  throw new UsageError('a name is missing');
}

function toRow({ digest, refs, sizeBytes }: ImageInfo): string {
  return `${digest.slice(0, DIGEST_CHARS)}  ${formatMib(sizeBytes).padStart(SIZE_COLUMNS)}  ${refs.join(' ') || '-'}`;
}

function onProgress(line: string): void {
  process.stderr.write(`${line}\n`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
