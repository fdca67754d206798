// An OCI layout of the host, as a copy that is ours: what fetches images opens files by name, and would follow links that lead
// out of the layout, or that come while it reads.
import { type FileHandle, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { copyBounded } from '../../lib/bounded-copy.ts';
import { AppError } from '../../lib/errors.ts';

export type GatherOptions = {
  /** Opens a regular file of the layout by its path there. */
  readonly open: (name: string) => Promise<FileHandle>;
  /** Of all files together. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal | undefined;
};

const MAX_DOCUMENT_BYTES = 8 << 20;
const MAX_BLOBS = 10_000;
/** Lists of lists of images. */
const MAX_DEPTH = 4;

const described = z.object({
  digest: z.string().regex(/^sha256:[\da-f]{64}$/),
  platform: z.object({ os: z.string(), architecture: z.string() }).nullish().catch(undefined),
});
const list = z.array(z.unknown()).catch([]);
const document = z.object({ manifests: list, config: z.unknown().optional(), layers: list });

type Described = z.infer<typeof described>;

/** Makes the layout `dir` with the blobs of images that may be taken from it. AppError invalid_argument for what is no layout. */
export async function gatherLayout(dir: string, options: GatherOptions): Promise<void> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true, mode: 0o700 });
  await writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}', { mode: 0o600 });
  const index = await readIndex(options);
  await writeFile(join(dir, 'index.json'), index, { mode: 0o600 });
  await new Gatherer(dir, options).take(index, 0);
}

/** The list of what a layout holds. AppError invalid_argument. */
export async function readIndex({ open }: Pick<GatherOptions, 'open'>): Promise<string> {
  await using file = await open('index.json').catch((cause: unknown) => {
    throw new AppError('invalid_argument', 'the index.json of the directory is gone', { cause });
  });
  return await readDocument(file, 'index.json');
}

class Gatherer {
  readonly #dir: string;
  readonly #options: GatherOptions;
  readonly #seen = new Set<string>();
  #bytes = 0;

  constructor(dir: string, options: GatherOptions) {
    this.#dir = dir;
    this.#options = options;
  }

  /** All that a document names, and what that names. Who fetches says what is wrong with it. */
  async take(text: string, depth: number): Promise<void> {
    const { manifests, config, layers } = parse(text);
    for (const each of [config, ...layers].flatMap(toDescribed)) await this.#copy(each);
    for (const each of ofThisPlatform(manifests.flatMap(toDescribed))) {
      const inner = await this.#copy(each, true);
      if (inner !== undefined && depth < MAX_DEPTH) await this.take(inner, depth + 1);
    }
  }

  /** The text of one that is a document; undefined for one that is here already, or is not there at all. */
  async #copy({ digest }: Described, isDocument = false): Promise<string | undefined> {
    const name = `blobs/sha256/${digest.slice('sha256:'.length)}`;
    if (this.#seen.has(name)) return undefined;
    this.#seen.add(name);
    if (this.#seen.size > MAX_BLOBS)
      throw new AppError('invalid_argument', `the directory has more than ${MAX_BLOBS} blobs`);
    const { open, maxBytes, signal } = this.#options;
    // A layout may have the blobs of one platform only. What is there and is not the layout's own is as if it were not.
    const opened = await open(name).catch(() => undefined);
    if (opened === undefined) return undefined;
    await using file = opened;
    const bounds = { maxBytes: maxBytes - this.#bytes, what: 'the directory', signal };
    this.#bytes += await copyBounded(file, join(this.#dir, name), bounds);
    return isDocument ? await readDocument(file, name) : undefined;
  }
}

async function readDocument(file: FileHandle, name: string): Promise<string> {
  const { size } = await file.stat();
  if (size > MAX_DOCUMENT_BYTES)
    throw new AppError(
      'invalid_argument',
      `the ${name} of the directory has ${size} bytes, which is too much`,
    );
  const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
  return buffer.subarray(0, bytesRead).toString();
}

function parse(text: string): z.infer<typeof document> {
  try {
    return document.parse(JSON.parse(text));
  } catch {
    return { manifests: [], config: undefined, layers: [] };
  }
}

function toDescribed(value: unknown): Described[] {
  const { data } = described.safeParse(value);
  return data === undefined ? [] : [data];
}

/** Of one alone it is said later that it is for another. */
function ofThisPlatform(all: readonly Described[]): readonly Described[] {
  const isOurs = ({ platform }: Described) =>
    platform === undefined ||
    platform === null ||
    (platform.os === 'linux' && platform.architecture === 'amd64');
  return all.length === 1 ? all : all.filter(isOurs);
}
