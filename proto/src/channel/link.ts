// A byte link: the transport of a channel. The host wraps a Unix socket, the guest a device or vsock descriptor.

export interface LinkEvents {
  /**
   * Received bytes. The chunk, and every frame and payload in it, is valid only until this returns: a new buffer for
   * each chunk would cause page faults and stay in memory until the next garbage collection.
   */
  data(chunk: Buffer): void;
  /** The link accepts bytes again after `write` returned false. */
  drain(): void;
  /** The link is closed. Called once. */
  close(cause?: Error): void;
  /** Minimum number of bytes missing from the current frame; 0 at a frame boundary. */
  missingBytes?(): number;
}

/** Bytes of a pipe or a file that a link may read itself. */
export type SourceBytes = {
  readonly descriptor: number;
  /** Maximum bytes to read. */
  readonly length: number;
  /** Bytes read and sent; 0 at the end, a negative error number when nothing could be read. */
  readonly took: (result: number) => void;
};

/** Destination of the data frames that a link builds itself. */
export type SourceFrames = Pick<SourceBytes, 'descriptor' | 'length'> & {
  readonly stream: number;
  readonly flow: number;
};

/** Permission for a link to write the payload of a stream's data frames to a file itself. */
export type DirectWrite = {
  /** Descriptor of the file, which is written sequentially. */
  readonly target: number;
  /** Bytes that the file accepts; 0 when it is too late. Called once, before the first byte. */
  readonly wanted: () => number;
  /** Reports written bytes, and the number of frames that began in them, as if the stream had received them. */
  readonly took: (bytes: number, frames: number) => void;
  /** Reports the error number of a failed write, after `took` for the bytes before it. */
  readonly failed: (errno: number) => void;
};

export interface ByteLink {
  /** Starts delivery. Called once, before the first write. */
  start(events: LinkEvents): void;
  /** Accepts all chunks, in order. False: wait for `drain` (control frames need not wait). */
  write(chunks: readonly Uint8Array[]): boolean;
  /**
   * Only on links that read descriptors natively: like `write` with data frames of the source's available bytes, each
   * full except the last. `result` is that of SourceBytes.
   */
  writeFrom?(frames: SourceFrames): { readonly result: number; readonly hasSpace: boolean };
  /**
   * Only on such links: applies from the next frame until a frame that is not data of that stream. The link may
   * decline, and may return to `data` at any time.
   */
  offerDirectWrite?(stream: number, directWrite: DirectWrite): void;
  /** Closes the link; `close` is called afterwards. */
  destroy(cause?: Error): void;
}
