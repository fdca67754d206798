// Templates of clients of E2B in the bucket: one object for each, with what a create on another host needs to know of
// its builds. Their content is that of snapshots.
import { z } from 'zod';
import { AppError, firstLine, isAppError } from '../lib/errors.ts';
import { manifestPath, snapshotIdSchema } from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import { BucketError } from './s3/bucket-error.ts';
import { damaged, type StoreKeys } from './store-keys.ts';

export const TEMPLATES = 'templates/';
const MAX_BYTES = 4 * 2 ** 20;
const MAX_BUILDS = 1000;
const ID = /^tpl[0-9a-f]{24}$/;
/** Hosts that were off for longer keep what was deleted meanwhile. */
const MAX_OVER_AGE_MS = 30 * 24 * 3_600_000;

const text = z.string().max(256);
const time = z.number().min(0);

// Fields of a later version stay, also when a host of this one changes something else.
const buildSchema = z.looseObject({
  id: text,
  snapshotId: snapshotIdSchema,
  createdAtMs: time,
  tags: z.array(text).max(MAX_BUILDS).readonly(),
  vcpus: z.int().min(1),
  memoryMib: z.int().min(1),
  diskBytes: z.number().min(0),
  defaults: z.looseObject({
    user: z.string().optional(),
    workdir: z.string().optional(),
    env: z.record(z.string(), z.string()),
  }),
});

const schema = z.looseObject({
  id: z.string().regex(ID),
  name: text,
  owner: z.looseObject({ key: z.string(), tenant: z.string().optional() }).optional(),
  createdAtMs: time,
  builds: z.array(buildSchema).max(MAX_BUILDS).readonly(),
  tagTimes: z.record(z.string(), time).optional(),
  /** No host has it any more. */
  deletedAtMs: time.optional(),
});

export type StoredTemplate = z.output<typeof schema>;

export class StoredTemplates {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;

  constructor(bucket: Bucket, keys: StoreKeys) {
    this.#bucket = bucket;
    this.#keys = keys;
  }

  /** In pages. */
  async *list(
    signal?: AbortSignal,
  ): AsyncGenerator<readonly { readonly id: string; readonly etag: string; readonly agoMs: number }[]> {
    for await (const page of this.#bucket.list(TEMPLATES, signal))
      yield page.flatMap(({ key, etag, agoMs }) => {
        const id = key.slice(TEMPLATES.length);
        return ID.test(id) ? [{ id, etag, agoMs }] : [];
      });
  }

  /** AppError `internal` if it is damaged, or of another key; `upstream`. */
  async read(
    id: string,
    signal?: AbortSignal,
  ): Promise<{ readonly etag: string; readonly template: StoredTemplate } | undefined> {
    const path = `${TEMPLATES}${id}`;
    const found = await this.#bucket.read(path, MAX_BYTES, signal);
    if (found === undefined) return undefined;
    const plain = this.#keys.open(path, found.body).toString('utf8');
    try {
      const template = schema.parse(JSON.parse(plain));
      if (template.id !== id) throw new Error('it is of another id');
      return { etag: found.etag, template };
    } catch (cause) {
      throw damaged(`${path} cannot be used: ${firstLine(cause)}`, cause);
    }
  }

  /** `etag`: in place of that one; absent: there is none. False: another host was faster. AppError too_large. */
  async write(template: StoredTemplate, etag: string | undefined, signal?: AbortSignal): Promise<boolean> {
    const path = `${TEMPLATES}${template.id}`;
    const sealed = this.#keys.seal(path, Buffer.from(JSON.stringify(schema.parse(template))));
    if (sealed.length > MAX_BYTES)
      throw new AppError('too_large', `${template.id} has more builds and variables than the bucket takes`);
    try {
      if (etag === undefined) return await this.#bucket.putNew(path, sealed, signal);
      return await this.#bucket.replace(path, etag, sealed, signal);
    } catch (error) {
      // A server that knows no such condition.
      if (!(error instanceof BucketError) || error.status !== 501) throw error;
      await this.#bucket.put(path, sealed, signal);
      return true;
    }
  }

  /** Problems of those that cannot be read, or lead to a snapshot that is not there. */
  async verify(
    signal: AbortSignal,
  ): Promise<{ readonly templates: number; readonly problems: readonly TemplateProblem[] }> {
    let templates = 0;
    const problems: TemplateProblem[] = [];
    for await (const { id, template, problem } of this.#all(signal)) {
      if (problem !== undefined) problems.push({ template: id, problem });
      if (template === undefined || isOver(template)) continue;
      templates += 1;
      for (const { snapshotId } of template.builds)
        if ((await this.#bucket.head(manifestPath(snapshotId), signal)) === undefined)
          problems.push({ template: id, problem: `its snapshot ${snapshotId} is missing` });
    }
    return { templates, problems };
  }

  async count(signal: AbortSignal): Promise<number> {
    let templates = 0;
    for await (const { template } of this.#all(signal))
      templates += template === undefined || !isOver(template) ? 1 : 0;
    return templates;
  }

  /** Removes those that were deleted, or have no build, longer ago than hosts are off. Resolves with the rest. */
  async collect(signal: AbortSignal): Promise<number> {
    let templates = 0;
    for await (const { id, template, agoMs } of this.#all(signal)) {
      if (template === undefined || !isOver(template)) templates += 1;
      else if (agoMs > MAX_OVER_AGE_MS) await this.#bucket.remove(`${TEMPLATES}${id}`, signal);
    }
    return templates;
  }

  async *#all(signal: AbortSignal): AsyncGenerator<Listed> {
    for await (const page of this.list(signal))
      for (const { id, agoMs } of page) {
        const found = await this.read(id, signal).catch((error: unknown) => {
          if (isAppError(error) && error.code === 'internal') return error;
          throw error;
        });
        // Removed since the list.
        if (found === undefined) continue;
        const read = isAppError(found) ? { problem: firstLine(found) } : { template: found.template };
        yield { id, agoMs, ...read };
      }
  }
}

type Listed = {
  readonly id: string;
  readonly agoMs: number;
  /** Absent: it cannot be read. */
  readonly template?: StoredTemplate;
  readonly problem?: string;
};

export type TemplateProblem = { readonly template: string; readonly problem: string };

function isOver({ builds, deletedAtMs }: StoredTemplate): boolean {
  return deletedAtMs !== undefined || builds.length === 0;
}
