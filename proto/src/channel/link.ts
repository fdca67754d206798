// A byte link: what a channel runs over. The host makes one of a Unix socket, the guest of a device or vsock descriptor.

export interface LinkEvents {
  /**
   * Bytes that arrived. The chunk, and every frame and payload in it, is only valid until this returns: each new buffer
   * would cost page faults, and live until a collection that may be far away.
   */
  data(chunk: Buffer): void;
  /** The link takes bytes again after `write` returned false. */
  drain(): void;
  /** No byte will come or go any more. Called once. */
  close(cause?: Error): void;
  /** How many bytes are missing from the frame that was begun, at least; 0 between two frames. */
  missingBytes?(): number;
}

/** Bytes of a pipe or a file that a link may read for itself, instead of being given them. */
export type SourceBytes = {
  readonly descriptor: number;
  /** Most bytes that may be read. */
  readonly length: number;
  /** How many were read and sent; 0 at the end, a negative error number when none could be. */
  readonly took: (result: number) => void;
};

/** Where the frames of a flow go that a link makes by itself. */
export type SourceFrames = Pick<SourceBytes, 'descriptor' | 'length'> & {
  readonly stream: number;
  readonly flow: number;
};

/** What a link may do with the payload of a stream's data frames by itself: put it into a file. */
export type DirectWrite = {
  /** Descriptor of the file, which is written in order. */
  readonly target: number;
  /** How many bytes it takes from now on; 0 when it is too late. Asked once, right before the first. */
  readonly wanted: () => number;
  /** So many bytes were written, in so many frames that began among them, as if they had been given to the stream. */
  readonly took: (bytes: number, frames: number) => void;
  /** The file could not be written, for the reason of that number; `took` was called for what came before. */
  readonly failed: (errno: number) => void;
};

export interface ByteLink {
  /** Starts delivery; called once, before anything is written. */
  start(events: LinkEvents): void;
  /** Takes all chunks, in order. False: please wait for `drain` (control frames need not). */
  write(chunks: readonly Uint8Array[]): boolean;
  /**
   * Only of links that read descriptors faster than JavaScript does: the same as `write` with data frames of what there is to be
   * read, full ones but for the last. `result` is as of SourceBytes.
   */
  writeFrom?(frames: SourceFrames): { readonly result: number; readonly isRoomy: boolean };
  /**
   * Only of such links: from the next frame on, until there is anything but data of that stream. It may decline, and goes back to
   * `data` at any time.
   */
  offerDirectWrite?(stream: number, directWrite: DirectWrite): void;
  /** Ends the link; `close` is called afterwards. */
  destroy(cause?: Error): void;
}
