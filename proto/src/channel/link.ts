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
  /** Ends the link; `close` is called afterwards. */
  destroy(cause?: Error): void;
}
