// The guest's side of a connection: waits for hellos, answers each with the sync mark, and runs one channel at a time.
import {
  DEFAULT_WINDOW_BYTES,
  MAX_WINDOW_BYTES,
  MIN_WINDOW_BYTES,
  NONCE_BYTES,
  PROTOCOL_VERSION,
} from '../limits.ts';
import { FrameCodec, type Hello, type HelloReplyInput, type Request } from '../messages.ts';
import { FrameDecoder } from '../wire/frame-decoder.ts';
import { encodeFrame } from '../wire/frame-encoder.ts';
import { syncMark } from '../wire/sync-mark.ts';
import { Channel } from './channel.ts';
import type { ByteLink } from './link.ts';
import type { Stream, StreamLoss } from './stream.ts';

export type GuestConnectionOptions = {
  /** The agent's part of the reply; version, nonce, window and common capabilities are added. */
  readonly describe: () => HelloReplyInput;
  readonly onRequest: (stream: Stream, request: Request) => void;
  /** A host sent a hello. The previous connection, if any, was dropped. */
  readonly onHello?: (hello: Hello) => void;
  /** An undecodable frame was skipped: the rest of an old connection, or an error of the host. */
  readonly onMalformed?: (cause: unknown) => void;
  /** A stream's handler or source threw, or the host violated its protocol. The stream ended with an error. */
  readonly onFault?: (cause: unknown) => void;
};

/**
 * Serves hosts over links. A virtio-serial link carries several connections one after another, a vsock link only one.
 * The newest valid hello wins, on whichever link it arrives.
 */
export class GuestConnection {
  readonly #options: GuestConnectionOptions;
  #current: { readonly channel: Channel; readonly link: ByteLink; readonly incarnation: string } | undefined;

  constructor(options: GuestConnectionOptions) {
    this.#options = options;
  }

  get channel(): Channel | undefined {
    return this.#current?.channel;
  }

  /** Incarnation of the newest host; undefined before the first hello. */
  get incarnation(): string | undefined {
    return this.#current?.incarnation;
  }

  /**
   * Serves a link until it closes. `hostLeft` may be called when a read returned end of file: bytes of the next host
   * have not been read at that point.
   */
  attach(link: ByteLink, onClose?: (cause?: Error) => void): { readonly hostLeft: () => void } {
    const decoder = new FrameDecoder('skip', (encoded) => this.#receive(link, encoded), true);
    link.start({
      data: (chunk) => {
        try {
          decoder.push(chunk);
        } catch (error) {
          // A length above the limit is an error of the host. Wait for its next padding and hello.
          decoder.reset();
          this.#options.onMalformed?.(error);
        }
      },
      missingBytes: () => decoder.missingBytes,
      drain: () => {
        if (this.#current?.link === link) this.#current.channel.drained();
      },
      close: (cause) => {
        // Commands continue: a restored copy also finds its old connections closed. The next hello tells the two cases
        // apart.
        if (this.#current?.link === link) this.#current.channel.linkClosed();
        onClose?.(cause);
      },
    });
    return { hostLeft: () => decoder.reset() };
  }

  #receive(link: ByteLink, encoded: Buffer): void {
    try {
      const hello = peekHello(encoded);
      if (hello !== undefined) this.#greet(link, hello);
      else if (this.#current?.link === link) this.#current.channel.receive(encoded);
    } catch (error) {
      this.#options.onMalformed?.(error);
    }
  }

  #greet(link: ByteLink, hello: Hello): void {
    if (hello.nonce.length !== NONCE_BYTES) throw new Error(`a nonce of ${hello.nonce.length} bytes`);
    if (hello.window < MIN_WINDOW_BYTES) throw new Error(`a window of ${hello.window} bytes`);
    const described = this.#options.describe();
    const isSame = this.#current?.incarnation === hello.incarnation;
    this.#drop(isSame ? { kind: 'superseded' } : { kind: 'detached' });
    const channel = new Channel({
      role: 'guest',
      link,
      sendWindow: Math.min(hello.window, MAX_WINDOW_BYTES),
      receiveWindow: DEFAULT_WINDOW_BYTES,
      onRequest: this.#options.onRequest,
      ...(this.#options.onFault && { onFault: this.#options.onFault }),
    });
    this.#current = { channel, link, incarnation: hello.incarnation };
    const reply = {
      ...described,
      version: PROTOCOL_VERSION,
      nonce: hello.nonce,
      window: DEFAULT_WINDOW_BYTES,
    };
    link.write([syncMark(hello.nonce), ...encodeFrame({ helloReply: reply })]);
    this.#options.onHello?.(hello);
  }

  #drop(loss: StreamLoss): void {
    const old = this.#current;
    this.#current = undefined;
    old?.channel.abandon(loss);
  }
}

/** Hello's field number as the first byte of a frame on stream 0; no other frame begins with it. */
const TAG_HELLO = (6 << 3) | 2;

function peekHello(encoded: Buffer): Hello | undefined {
  if (encoded[0] !== TAG_HELLO) return undefined;
  const frame = FrameCodec.decode(encoded);
  return frame.body === 'hello' ? (frame.hello as Hello) : undefined;
}
