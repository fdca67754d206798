// Container images of the daemon. One that has them not enabled answers UnsupportedError.
import type { Requests } from './connection/requests.ts';
import type { Bytes } from './connection/transport.ts';
import type { CallOptions, ImageInfo } from './contract.ts';

export type PullOptions = CallOptions & {
  /** `missing`: only if it is not here. */
  readonly pull?: 'always' | 'missing';
};

export type ImportOptions = CallOptions & {
  /** Which image of an archive that holds several. */
  readonly tag?: string;
  /** Told how much of the archive went out. */
  readonly onProgress?: (sentBytes: number) => void;
};

export class Images {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  async list(options: CallOptions = {}): Promise<readonly ImageInfo[]> {
    return (await this.#requests.ask('listImages', options)).images;
  }

  get(ref: string, options: CallOptions = {}): Promise<ImageInfo> {
    return this.#requests.ask('getImage', { params: { ref }, ...options });
  }

  /** Pulls it from its registry and converts it. */
  pull(ref: string, { pull = 'always', ...options }: PullOptions = {}): Promise<ImageInfo> {
    return this.#requests.ask('pullImage', { body: { ref, pull }, ...options });
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
