// Images that hosts of a fleet share: what one has pulled or imported, another fetches from the bucket instead of the
// registry. All of it is a help: where the bucket fails, an image is pulled as without it.
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { link } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import { backOffMs } from '../lib/back-off.ts';
import { errnoOf, isAppError, toError } from '../lib/errors.ts';
import type { Table } from '../store/store.ts';
import { commitImage } from './build-image.ts';
import type { Report } from './fetch/download-progress.ts';
import { watchFreeDisk } from './fetch/watch.ts';
import type { ImageFiles } from './files.ts';
import type { ImageRecord, StoredImage } from './record.ts';

/** Until the bucket says whether it has an image; then the registry is asked. */
const FIND_MS = 5000;
const WITHDRAW_MS = 5000;
const BACK_OFF = { firstMs: 5000, mostMs: 300_000, jitter: 0.25 };
/** Kernel and programs of another machine cannot run it. */
const MACHINE = process.arch;

/** Where they are: names lead to files with descriptions. */
export interface ImageDepot {
  find(
    text: string,
    signal: AbortSignal,
  ): Promise<
    | {
        readonly id: string;
        readonly description: unknown;
        readonly download: (path: string, signal: AbortSignal) => Promise<void>;
      }
    | undefined
  >;
  offer(
    image: { readonly id: string; readonly description: unknown; readonly path: string },
    refs: readonly string[],
    options: { readonly isLatest: boolean },
    signal: AbortSignal,
  ): Promise<void>;
  forget(ref: string, id: string | undefined, signal: AbortSignal): Promise<boolean>;
  remove(id: string, signal: AbortSignal): Promise<void>;
}

const texts = z.array(z.string()).readonly();
const config = z.strictObject({
  ...{ entrypoint: texts, cmd: texts, env: z.record(z.string(), z.string()), exposedPorts: texts },
  ...{ user: z.string(), workdir: z.string(), stopSignal: z.string() },
  labels: z.record(z.string(), z.string()),
  labelsOmitted: z.number().exactOptional(),
});
const described = z.strictObject({
  machine: z.string(),
  ...{ configDigest: z.string(), config, layers: texts },
  rootfsDigest: z.string().regex(/^[\da-f]{64}$/),
  isCopy: z.literal(true).exactOptional(),
  ...{ sizeBytes: z.number(), entries: z.number(), contentBytes: z.number(), convertedAtMs: z.number() },
});
type Described = z.output<typeof described>;

export type SharedImagesOptions = {
  readonly depot: ImageDepot;
  readonly files: ImageFiles;
  readonly records: Table<ImageRecord>;
  readonly log: Logger;
};

export type FetchTask = {
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
  /** Owner of the image if it is new here. */
  readonly owner?: string | undefined;
};

export class SharedImages {
  readonly #options: SharedImagesOptions;
  readonly #stop = new AbortController();
  /** To be sent, with whether their names lead to them from now on. */
  readonly #waiting = new Map<string, { readonly isLatest: boolean }>();
  #running: Promise<void> | undefined;

  constructor(options: SharedImagesOptions) {
    this.#options = options;
  }

  /** What was not sent before the last end. */
  start(): void {
    for (const { id } of this.#options.records.all()) this.offer(id, { isLatest: false });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** In the background, one at a time, until the bucket has it. */
  offer(id: string, options: { readonly isLatest: boolean }): void {
    this.#waiting.set(id, options);
    this.#run();
  }

  #run(): void {
    if (this.#stop.signal.aborted) return;
    this.#running ??= this.#send().finally(() => {
      this.#running = undefined;
      if (this.#waiting.size > 0) this.#run();
    });
  }

  /** By a canonical reference or a whole digest. Undefined: not there, or not to be had now; rejects when aborted. */
  async fetch(text: string, task: FetchTask): Promise<StoredImage | undefined> {
    try {
      return await this.#fetch(text, task);
    } catch (error) {
      task.signal?.throwIfAborted();
      const reason = toError(error).message;
      this.#options.log.warn({ image: text, reason }, 'cannot fetch an image from the snapshot store');
      return undefined;
    }
  }

  /** These names lead nowhere any more. `id`: unless another image has them by now. False: there were none. */
  async withdraw(refs: readonly string[], id?: string): Promise<boolean> {
    const { depot, log } = this.#options;
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(WITHDRAW_MS)]);
    try {
      let isDone = false;
      for (const ref of refs) isDone = (await depot.forget(toName(ref), id, signal)) || isDone;
      return isDone;
    } catch (error) {
      log.warn({ refs, reason: toError(error).message }, 'names of an image stay in the snapshot store');
      return false;
    }
  }

  async remove({ id, record }: StoredImage): Promise<void> {
    this.#waiting.delete(id);
    await this.withdraw(record.refs, id);
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(WITHDRAW_MS)]);
    await this.#options.depot.remove(id, signal).catch((error: unknown) => {
      const reason = toError(error).message;
      this.#options.log.warn({ image: id, reason }, 'an image stays in the snapshot store');
    });
  }

  async #fetch(text: string, { report, signal, owner }: FetchTask): Promise<StoredImage | undefined> {
    const { depot, files, records } = this.#options;
    const soon = AbortSignal.any([...(signal ? [signal] : []), AbortSignal.timeout(FIND_MS)]);
    const found = await depot.find(/^[\da-f]{64}$/.test(text) ? text : toName(text), soon);
    if (found === undefined) return undefined;
    const { machine, ...about } = described.parse(found.description);
    if (machine !== MACHINE || idOf(about) !== found.id) return undefined;
    const path = files.rootfsPath(about.rootfsDigest);
    const known = existsSync(path) ? records.get(found.id) : undefined;
    await using work = await files.makeWork();
    if (known === undefined) {
      report('fetching the image from the snapshot store');
      using disk = watchFreeDisk(work.dir, signal);
      const file = join(work.dir, 'image');
      await found.download(file, disk.signal);
      const hash = createHash('sha256');
      await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash, { signal: disk.signal });
      if (hash.digest('hex') !== about.rootfsDigest) throw new Error('its content is another');
      await link(file, path).catch((error) => {
        if (errnoOf(error) !== 'EEXIST') throw error;
      });
    }
    const now = Date.now();
    const record = { refs: [], blobs: [], ...about, usedAtMs: now, ...(owner !== undefined && { owner }) };
    const names = text === found.id ? [] : [text];
    const isNew = known === undefined;
    return await commitImage(records, { id: found.id, record: known ?? record }, names, { isNew });
  }

  async #send(): Promise<void> {
    const { signal } = this.#stop;
    for (let failures = 0; this.#waiting.size > 0 && !signal.aborted; ) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      const [id, options] = next;
      this.#waiting.delete(id);
      try {
        await this.#sendOne(id, options, signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        const reason = toError(error).message;
        this.#options.log.warn({ image: id, reason }, 'an image is not in the snapshot store yet');
        // What the bucket never takes is tried again at the next start.
        if (isAppError(error) && error.code !== 'upstream') continue;
        if (!this.#waiting.has(id)) this.#waiting.set(id, options);
        failures += 1;
        await pause(backOffMs(failures, BACK_OFF), signal);
      }
    }
  }

  /** One of a file of the host is that host's alone. */
  async #sendOne(id: string, options: { readonly isLatest: boolean }, signal: AbortSignal): Promise<void> {
    const { depot, files, records } = this.#options;
    const record = records.get(id);
    if (record === undefined || record.fileKey !== undefined) return;
    const hold = await files.hold(record.rootfsDigest).catch(() => undefined);
    if (hold === undefined) return;
    await using _hold = hold;
    const description: Described = {
      ...{ machine: MACHINE, configDigest: record.configDigest, config: record.config },
      ...{ layers: record.layers, rootfsDigest: record.rootfsDigest, ...(record.isCopy && { isCopy: true }) },
      ...{ sizeBytes: record.sizeBytes, entries: record.entries, contentBytes: record.contentBytes },
      convertedAtMs: record.convertedAtMs,
    };
    await depot.offer({ id, description, path: hold.path }, record.refs.map(toName), options, signal);
    if (records.get(id) === undefined) await this.remove({ id, record });
  }
}

/** Each machine has its own image of a name. */
function toName(ref: string): string {
  return `${MACHINE} ${ref}`;
}

function idOf({
  rootfsDigest,
  configDigest,
  isCopy,
}: Pick<Described, 'rootfsDigest' | 'configDigest' | 'isCopy'>) {
  if (isCopy) return rootfsDigest;
  return createHash('sha256').update(`${rootfsDigest}\n${configDigest}\n`).digest('hex');
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms).unref();
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
