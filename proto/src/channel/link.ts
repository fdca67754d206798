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

/** Bytes that wait behind a descriptor, of a pipe or a file, to be moved without being seen. */
export type PipedBytes = { readonly source: number; readonly isPipe: boolean; readonly length: number };

/** Piped bytes with what makes data frames of them: a header before each `frameBytes`, another before the last. */
export type PipedFrames = PipedBytes & {
  readonly frameBytes: number;
  readonly header: Buffer;
  readonly lastHeader: Buffer;
  readonly trailer: Buffer;
};

export interface ByteLink {
  /**
   * Whether `write` has copied or sent every byte when it returns, so that the caller may reuse its buffers.
   */
  readonly isCopying: boolean;
  /** Starts delivery; called once, before anything is written. */
  start(events: LinkEvents): void;
  /** Takes all chunks, in order. False: please wait for `drain` (control frames need not). */
  write(chunks: readonly Uint8Array[]): boolean;
  /**
   * Only of links that can move bytes from a descriptor by themselves: the same as `write` with the frames, whose bytes have
   * left their source when it returns.
   */
  writePiped?(frames: PipedFrames): boolean;
  /** Ends the link; `close` is called afterwards. */
  destroy(cause?: Error): void;
}
