// How much of an image is here while skopeo fetches it. It tells which layers it begins; each is a file without a name of its own
// until it is whole. So what is here is known of all layers together, and of a layer once it has come.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Report } from '../progress.ts';
import { blobPath } from './blobs.ts';
import { chooseBest, platform } from './platform.ts';

/** Of each layer, by SHA-256 in hexadecimal. */
export type LayerSizes = ReadonlyMap<string, number>;

export type DownloadProgressOptions = {
  readonly blobsDir: string;
  /** Where files are that are not whole. */
  readonly layout: string;
  readonly report: Report;
  /** Asks for the sizes: a request of its own at the registry, made only for a pull that takes long and that somebody watches. */
  readonly askSizes: (signal: AbortSignal) => Promise<LayerSizes>;
};

const LOOK_MS = 250;
const LOOKS_BEFORE_ASKING = 4;
const SHOWN_DIGITS = 12;
const PART = /^oci-put-blob/;

const sized = z.object({ digest: z.string().regex(/^sha256:[\da-f]{64}$/), size: z.int().nonnegative() });
const document = z.object({
  layers: z.array(sized).optional(),
  manifests: z.array(z.object({ digest: z.string(), platform: platform.nullish() })).optional(),
});

/** What a manifest says of its layers, or which manifest of a list is that of this platform. Undefined for what is neither. */
export function readSizes(text: string): LayerSizes | { readonly digest: string } | undefined {
  const { layers, manifests = [] } = document.parse(JSON.parse(text));
  if (layers !== undefined) return new Map(layers.map(({ digest, size }) => [toHex(digest), size]));
  const known = manifests.flatMap(({ digest, platform }) => (platform ? [{ digest, platform }] : []));
  return chooseBest(known, (each) => each.platform);
}

export class DownloadProgress implements AsyncDisposable {
  readonly #options: DownloadProgressOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #ended = new AbortController();
  readonly #begun = new Set<string>();
  readonly #whole = new Set<string>();
  #looks = 0;
  #looking: Promise<void> = Promise.resolve();
  #isLooking = false;
  #asking: Promise<void> | undefined;
  #sizes: LayerSizes | undefined;
  #told = 0;

  constructor(options: DownloadProgressOptions) {
    this.#options = options;
    this.#timer = setInterval(() => {
      if (this.#isLooking) return;
      this.#isLooking = true;
      this.#looking = this.#look()
        // The next look may see what this one did not: files come and go.
        .catch(() => undefined)
        .finally(() => {
          this.#isLooking = false;
        });
    }, LOOK_MS);
  }

  /** Skopeo said so. */
  begin(hex: string): void {
    this.#begun.add(hex);
    const layer = hex.slice(0, SHOWN_DIGITS);
    this.#options.report(`fetching layer ${layer}`, { layer });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#ended.abort();
    await Promise.all([this.#looking, this.#asking]);
  }

  async #look(): Promise<void> {
    const { blobsDir, layout, report } = this.#options;
    this.#looks += 1;
    for (const hex of this.#begun) {
      if (this.#whole.has(hex)) continue;
      const bytes = await sizeOf(blobPath(blobsDir, hex));
      if (bytes === undefined) continue;
      this.#whole.add(hex);
      const layer = hex.slice(0, SHOWN_DIGITS);
      report(`fetched layer ${layer}`, { layer, bytes, totalBytes: bytes });
    }
    if (this.#begun.size === 0 || this.#looks < LOOKS_BEFORE_ASKING || report.isHeard?.() !== true) return;
    this.#asking ??= this.#ask();
    const sizes = this.#sizes;
    if (sizes === undefined || [...this.#begun].some((hex) => !sizes.has(hex))) return;
    // Whole ones were looked at before: one that became whole since then is missing once, and none counts twice.
    const whole = [...this.#whole].map((hex) => sizes.get(hex) ?? 0);
    const parts = (await readdir(layout)).filter((name) => PART.test(name));
    const partly = await Promise.all(parts.map((name) => sizeOf(join(layout, name))));
    const totalBytes = sum([...sizes.values()]);
    const bytes = Math.min(totalBytes, sum([...whole, ...partly]));
    if (bytes <= this.#told || !Number.isSafeInteger(totalBytes)) return;
    this.#told = bytes;
    report('fetching layers', { bytes, totalBytes });
  }

  async #ask(): Promise<void> {
    // Without them layers are told of all the same.
    this.#sizes = await this.#options.askSizes(this.#ended.signal).catch(() => undefined);
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ size }) => size,
    () => undefined,
  );
}

function sum(all: readonly (number | undefined)[]): number {
  return all.reduce<number>((total, each) => total + (each ?? 0), 0);
}

function toHex(digest: string): string {
  return digest.slice('sha256:'.length);
}
