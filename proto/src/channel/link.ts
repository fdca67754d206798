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

/** Bytes that wait behind a descriptor, of a pipe or a file, to be moved without being seen. */
export type PipedBytes = {
  readonly source: number;
  readonly isPipe: boolean;
  readonly length: number;
  /** What the link may move behind these, as it comes, without asking again. */
  readonly rest?: PipedRest;
};

export type PipedRest = {
  /** Most bytes that may be moved. */
  readonly length: number;
  /** The link moves no more; it has moved so many, and maybe seen that nobody writes any more. */
  readonly returned: (movedBytes: number, hasHungUp: boolean) => void;
};

/** A flow that a link sends by itself, credit included, until it gives it back. */
export type Relayed = {
  readonly stream: number;
  readonly flow: number;
  readonly source: number;
  readonly isPipe: boolean;
  readonly length: number;
  /** Credit to begin with, and the most that the flow may ever have. */
  readonly credit: number;
  readonly window: number;
  /** Called once; the flow is its stream's again. */
  readonly returned: (credit: number, movedBytes: number, hasHungUp: boolean) => void;
};

/** What a link may do with the payload of a stream's data frames by itself: put it into a file. */
export type Intake = {
  /** Descriptor of the file, which is written in order. */
  readonly target: number;
  /** How many bytes it takes from now on; 0 when it is too late. Asked once, right before the first. */
  readonly wanted: () => number;
  /** So many bytes were written, as if they had been given to the stream. */
  readonly took: (bytes: number) => void;
  /** The file could not be written, for the reason of that number; `took` was called for what came before. */
  readonly failed: (errno: number) => void;
};

/** The same with its stream, and the credit that is returned for what is taken in. */
export type StreamIntake = Pick<Intake, 'target' | 'wanted' | 'failed'> & {
  readonly stream: number;
  /** `frames` is how many began among the bytes, `returned` the credit that the link has sent by itself. */
  readonly took: (bytes: number, frames: number, returned: number) => void;
  /** Credit that is due to the peer already, and how much is worth a frame. */
  readonly creditDue: () => number;
  readonly creditWorth: number;
};

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
  /**
   * Only of such links: sends the flow by itself from now on; false when it cannot now. Other frames may be written
   * meanwhile. It is given back when anything but its credit arrives, when its source has nothing for ever or fails, and
   * within `reclaim`.
   */
  relay?(relayed: Relayed): boolean;
  reclaim?(): void;
  /**
   * Only of links that can write what they read by themselves: does so from the next frame on, until there is anything but
   * data of that stream. It may decline, and goes back to `data` at any time.
   */
  offerIntake?(intake: StreamIntake): void;
  /** Ends the link; `close` is called afterwards. */
  destroy(cause?: Error): void;
}
