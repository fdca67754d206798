// Container images of the daemon. One that has them not enabled answers UnsupportedError.
import type { Requests } from './connection/requests.ts';
import type { Bytes } from './connection/transport.ts';
import type { CallOptions, ErrorCode, ImageInfo } from './contract.ts';
import { ConnectionError, toApiError } from './errors.ts';

/** A step of a pull. */
export type PullProgress = {
  /** For people. */
  readonly text: string;
  /** The layer that it is about, by the beginning of its digest. */
  readonly layer?: string;
  /** How much of the layer is here, of how much, where that is known; without `layer`, of all layers together. */
  readonly bytes?: number;
  readonly totalBytes?: number;
};

export type PullOptions = CallOptions & {
  /** `missing`: only if it is not here. */
  readonly pull?: 'always' | 'missing';
  /** Told of each step. */
  readonly onProgress?: (progress: PullProgress) => void;
};

export type ImportOptions = CallOptions & {
  /** Which image of an archive that holds several. */
  readonly tag?: string;
  /** Told how much of the archive went out. */
  readonly onProgress?: (sentBytes: number) => void;
};

/** A line of what the daemon answers where steps are asked for; the last one has the image, or the error. */
type Line = {
  readonly progress?: string;
  readonly layer?: string;
  readonly bytes?: number;
  readonly total_bytes?: number;
  readonly image?: ImageInfo;
  readonly error?: string;
  readonly code?: ErrorCode;
  readonly status?: number;
};

export class Images {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  async list(options: CallOptions = {}): Promise<readonly ImageInfo[]> {
    return this.#requests.list('listImages', options, ({ images }) => images);
  }

  get(ref: string, options: CallOptions = {}): Promise<ImageInfo> {
    return this.#requests.ask('getImage', { params: { ref }, ...options });
  }

  /** Pulls it from its registry and converts it. UpstreamError when the registry says no. */
  async pull(ref: string, { pull = 'always', onProgress, ...options }: PullOptions = {}): Promise<ImageInfo> {
    const call = { body: { ref, pull }, ...options };
    if (onProgress === undefined) return this.#requests.ask('pullImage', call);
    let last: Line | undefined;
    const requestId = await this.#requests.lines('pullImage', call, (line) => {
      last = line as Line;
      if (last.progress !== undefined) onProgress(toProgress(last.progress, last));
    });
    if (last?.image !== undefined) return last.image;
    if (last?.error !== undefined) throw toApiError(last.status ?? 500, last.error, requestId, last.code);
    throw new ConnectionError(`the connection ended before ${ref} was pulled`);
  }

  /** Converts a saved archive: what `docker save` writes, or an OCI layout. */
  import(
    archive: Bytes | Uint8Array,
    { tag, onProgress, ...options }: ImportOptions = {},
  ): Promise<ImageInfo> {
    const bytes = onProgress ? counted(archive, onProgress) : archive;
    return this.#requests.ask('importImage', { query: { tag }, bytes, ...options });
  }

  /** Sandboxes that use it keep running. */
  async delete(ref: string, options: CallOptions = {}): Promise<void> {
    await this.#requests.ask('deleteImage', { params: { ref }, ...options });
  }
}

function toProgress(text: string, { layer, bytes, total_bytes }: Line): PullProgress {
  return {
    text,
    ...(layer !== undefined && { layer }),
    ...(bytes !== undefined && { bytes }),
    ...(total_bytes !== undefined && { totalBytes: total_bytes }),
  };
}

/** Tells of each piece how many bytes there were with it. */
export async function* counted(
  bytes: Bytes | Uint8Array,
  onProgress: (bytes: number) => void,
): AsyncGenerator<Uint8Array, void> {
  let sum = 0;
  for await (const part of bytes instanceof Uint8Array ? [bytes] : bytes) {
    yield part;
    sum += part.length;
    onProgress(sum);
  }
}
