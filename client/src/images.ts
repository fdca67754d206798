// Container images of the daemon. UnsupportedError when images are disabled.
import type { Requests } from './connection/requests.ts';
import type { Bytes } from './connection/transport.ts';
import type {
  CallOptions,
  ErrorCode,
  ImageChanges,
  ImageInfo,
  KeyedOptions,
  ListOptions,
} from './contract.ts';
import { ConnectionError, toApiError } from './errors.ts';

/** A step of a pull. */
export type PullProgress = {
  /** A line for people. */
  readonly text: string;
  /** The layer concerned, as a digest prefix. */
  readonly layer?: string;
  /** Bytes on disk and total bytes of the layer, if known; without `layer`, of all layers together. */
  readonly bytes?: number;
  readonly totalBytes?: number;
};

export type PullOptions = KeyedOptions & {
  /** `missing`: pulls only if the image is not stored. */
  readonly pull?: 'always' | 'missing';
  /** At the gateway of a fleet, the hosts that pull it; default: all. */
  readonly hosts?: readonly string[];
  /** Called for each step. */
  readonly onProgress?: (progress: PullProgress) => void;
};

export type ImportOptions = CallOptions & {
  /** The image to import from an archive with several images. */
  readonly tag?: string;
  /** Called with the number of bytes sent. */
  readonly onProgress?: (sentBytes: number) => void;
};

/** A line of the progress stream; the last line has the image or the error. */
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

export type ImageListOptions = ListOptions & {
  /** Also those that only the snapshot store of a fleet has, and where each is (`storage`). */
  readonly isShared?: boolean;
};

export class Images {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  async list({ labels, name, isShared, ...options }: ImageListOptions = {}): Promise<readonly ImageInfo[]> {
    const query = { label: labels, name, shared: isShared ? 'true' : undefined };
    return this.#requests.list('listImages', { ...options, query }, ({ images }) => images);
  }

  /** Sets labels of an image, and removes those that are null. */
  change(ref: string, { signal, timeoutMs, ...body }: ImageChanges & CallOptions): Promise<ImageInfo> {
    return this.#requests.call('changeImage', { params: { ref }, body, signal, timeoutMs });
  }

  get(ref: string, options: CallOptions = {}): Promise<ImageInfo> {
    return this.#requests.call('getImage', { params: { ref }, ...options });
  }

  /** Pulls an image from its registry and converts it. UpstreamError when the registry fails. */
  async pull(
    ref: string,
    { pull = 'always', hosts, onProgress, ...options }: PullOptions = {},
  ): Promise<ImageInfo> {
    const query = { host: hosts?.join(',') };
    const call = { body: { ref, pull }, query, ...options };
    if (onProgress === undefined) return this.#requests.call('pullImage', call);
    let last: Line | undefined;
    const requestId = await this.#requests.lines('pullImage', call, (line) => {
      last = line as Line;
      if (last.progress !== undefined) onProgress(toProgress(last.progress, last));
    });
    if (last?.image !== undefined) return last.image;
    if (last?.error !== undefined) throw toApiError(last.status ?? 500, last.error, requestId, last.code);
    throw new ConnectionError(`the connection ended before ${ref} was pulled`);
  }

  /** Imports an archive of `docker save` or an OCI layout. */
  import(
    archive: Bytes | Uint8Array,
    { tag, onProgress, ...options }: ImportOptions = {},
  ): Promise<ImageInfo> {
    const bytes = onProgress ? counted(archive, onProgress) : archive;
    return this.#requests.call('importImage', { query: { tag }, bytes, ...options });
  }

  /** Deletes an image. Sandboxes that use it keep running. */
  async delete(ref: string, options: CallOptions = {}): Promise<void> {
    await this.#requests.call('deleteImage', { params: { ref }, ...options });
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

/** Passes chunks through, and calls `onProgress` with the total bytes after each. */
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
