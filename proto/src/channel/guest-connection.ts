// The guest's end of a connection: waits for hellos, answers each with the sync mark, and runs one channel at a time.
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
  /** What the reply says about this agent; version, nonce, window and what every connection can are filled in. */
  readonly describe: () => HelloReplyInput;
  readonly onRequest: (stream: Stream, request: Request) => void;
  /** A host said hello; the connection before it, if any, was given up in favour of this one. */
  readonly onHello?: (hello: Hello) => void;
  /** A frame could not be read; it was skipped (the rest of an old connection, or a fault of the host). */
  readonly onMalformed?: (cause: unknown) => void;
  /** A handler or source of a stream threw, or the host broke the rules of one; the stream was ended with an error. */
  readonly onFault?: (cause: unknown) => void;
};

/**
 * Serves hosts over links. A link may carry several connections one after another (virtio-serial) or one (vsock); the
 * newest valid hello wins, whichever link it came over.
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

  /** Of the newest host; undefined before the first. */
  get incarnation(): string | undefined {
    return this.#current?.incarnation;
  }

  /**
   * Starts to serve a link until it closes. `hostLeft` may be called where a read said end of file: nothing that the
   * next host writes has been read by then.
   */
  attach(link: ByteLink, onClose?: (cause?: Error) => void): { readonly hostLeft: () => void } {
    const decoder = new FrameDecoder('skip', (encoded) => this.#receive(link, encoded), true);
    link.start({
      data: (chunk) => {
        try {
          decoder.push(chunk);
        } catch (error) {
          // A length over the limit: only a host's fault can be the cause. Wait for its next padding and hello.
          decoder.reset();
          this.#options.onMalformed?.(error);
        }
      },
      missingBytes: () => decoder.missingBytes,
      drain: () => {
        if (this.#current?.link === link) this.#current.channel.drained();
      },
      close: (cause) => {
        // What runs goes on: a restored copy finds its old connections closed too. The next hello says which it is.
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

/** Hello's field number as the first byte of a frame on stream 0; no other frame begins so. */
const TAG_HELLO = (6 << 3) | 2;

function peekHello(encoded: Buffer): Hello | undefined {
  if (encoded[0] !== TAG_HELLO) return undefined;
  const frame = FrameCodec.decode(encoded);
  return frame.body === 'hello' ? (frame.hello as Hello) : undefined;
}
