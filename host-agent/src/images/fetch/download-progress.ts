// Reports the progress of a download while skopeo runs. Skopeo reports only which layers it starts, and writes each
// layer to a temporary file until the layer is complete. So progress is known for all layers together, and for one
// layer only when it is complete.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { chooseBest, platform } from './choose.ts';
import { blobPath } from './layout.ts';

/** Bytes of each layer, by SHA-256 in hexadecimal. */
export type LayerSizes = ReadonlyMap<string, number>;

export type DownloadProgressOptions = {
  readonly blobsDir: string;
  /** Directory of the incomplete files. */
  readonly layout: string;
  readonly report: Report;
  /**
   * Requests the layer sizes. This takes another request to the registry, so it is made only for a slow pull that a
   * client is watching.
   */
  readonly requestSizes: (signal: AbortSignal) => Promise<LayerSizes>;
};

const POLL_MS = 250;
const POLLS_BEFORE_REQUEST = 4;
const SHOWN_DIGITS = 12;
const PART = /^oci-put-blob/;

const sized = z.object({ digest: z.string().regex(/^sha256:[\da-f]{64}$/), size: z.int().nonnegative() });
const document = z.object({
  layers: z.array(sized).optional(),
  manifests: z.array(z.object({ digest: z.string(), platform: platform.nullish() })).optional(),
});

/**
 * Returns the layer sizes of a manifest, or, for an index, the digest of this platform's manifest. Undefined for other
 * documents.
 */
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
  readonly #started = new Set<string>();
  readonly #complete = new Set<string>();
  #polls = 0;
  #polling: Promise<void> = Promise.resolve();
  #isPolling = false;
  #requesting: Promise<void> | undefined;
  #sizes: LayerSizes | undefined;
  #reported = 0;

  constructor(options: DownloadProgressOptions) {
    this.#options = options;
    this.#timer = setInterval(() => {
      if (this.#isPolling) return;
      this.#isPolling = true;
      this.#polling = this.#poll()
        // Files appear and disappear during a poll; the next poll may succeed.
        .catch(() => undefined)
        .finally(() => {
          this.#isPolling = false;
        });
    }, POLL_MS);
  }

  /** Records that skopeo has started this layer. */
  begin(hex: string): void {
    this.#started.add(hex);
    const layer = hex.slice(0, SHOWN_DIGITS);
    this.#options.report(`fetching layer ${layer}`, { layer });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#ended.abort();
    await Promise.all([this.#polling, this.#requesting]);
  }

  async #poll(): Promise<void> {
    const { blobsDir, layout, report } = this.#options;
    this.#polls += 1;
    for (const hex of this.#started) {
      if (this.#complete.has(hex)) continue;
      const bytes = await sizeOf(blobPath(blobsDir, hex));
      if (bytes === undefined) continue;
      this.#complete.add(hex);
      const layer = hex.slice(0, SHOWN_DIGITS);
      report(`fetched layer ${layer}`, { layer, bytes, totalBytes: bytes });
    }
    if (this.#started.size === 0 || this.#polls < POLLS_BEFORE_REQUEST || report.hasListeners?.() !== true)
      return;
    this.#requesting ??= this.#requestSizes();
    const sizes = this.#sizes;
    if (sizes === undefined || [...this.#started].some((hex) => !sizes.has(hex))) return;
    // The complete layers were counted before the incomplete ones: a layer that completes in between is missed once,
    // but never counted twice.
    const complete = [...this.#complete].map((hex) => sizes.get(hex) ?? 0);
    const parts = (await readdir(layout)).filter((name) => PART.test(name));
    const incomplete = await Promise.all(parts.map((name) => sizeOf(join(layout, name))));
    const totalBytes = sum([...sizes.values()]);
    const bytes = Math.min(totalBytes, sum([...complete, ...incomplete]));
    if (bytes <= this.#reported || !Number.isSafeInteger(totalBytes)) return;
    this.#reported = bytes;
    report('fetching layers', { bytes, totalBytes });
  }

  async #requestSizes(): Promise<void> {
    // Without the sizes, layers are still reported.
    this.#sizes = await this.#options.requestSizes(this.#ended.signal).catch(() => undefined);
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

// Progress reports of a pull.
/** A layer (digest prefix) and its bytes on disk; without `layer`, the bytes of all layers. */
export type LayerProgress = {
  readonly layer?: string | undefined;
  readonly bytes?: number | undefined;
  readonly totalBytes?: number | undefined;
};

/** Called with a line for people about each step, and the layer concerned. */
export type Report = ((line: string, layer?: LayerProgress) => void) & {
  /** Whether a client is listening; several requests may share one pull. */
  readonly hasListeners?: () => boolean;
};
