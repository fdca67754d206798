// The host's side of a connection: padding, hello, sync mark, reply, then a channel.
import { randomBytes } from 'node:crypto';
import { ProtocolViolation } from '../errors.ts';
import {
  DEFAULT_WINDOW_BYTES,
  MAX_FRAME_BYTES,
  MAX_WINDOW_BYTES,
  MIN_WINDOW_BYTES,
  NONCE_BYTES,
  PROTOCOL_VERSION,
} from '../limits.ts';
import { FrameCodec, type HelloReply } from '../messages.ts';
import { FrameDecoder } from '../wire/frame-decoder.ts';
import { encodeFrame } from '../wire/frame-encoder.ts';
import { SyncScanner } from '../wire/sync-mark.ts';
import { Channel } from './channel.ts';
import type { ByteLink } from './link.ts';

/** Maximum bytes of an old connection before the sync mark: the capacity of the kernel, the VMM and the socket. */
const STALE_LIMIT_BYTES = 16 * 1024 * 1024;

/**
 * Completes any frame that the guest has received in part: one maximum frame of zeros. Each further zero is an empty
 * frame. The spare bytes complete a truncated length prefix.
 */
const PADDING = Buffer.alloc(MAX_FRAME_BYTES + 4);

export type HostConnectionOptions = {
  /** Identifies this run of the guest's memory, see Hello. */
  readonly incarnation: string;
  /** False on a cold boot: no earlier host can have written to the channel. */
  readonly needsResync: boolean;
  readonly signal?: AbortSignal;
  /** The channel closed after it was established. */
  readonly onClose?: (cause: Error) => void;
  /** A stream's handler or source threw. The stream was ended. */
  readonly onFault?: (cause: unknown) => void;
};

export type HostConnection = { readonly channel: Channel; readonly hello: HelloReply };

/**
 * Performs the handshake over `link`. Resolves once the guest agent has replied. Rejects and destroys the link when the
 * link closes, the guest violates the protocol, or `signal` aborts.
 */
export function connectHost(link: ByteLink, options: HostConnectionOptions): Promise<HostConnection> {
  return new Promise((resolve, reject) => {
    const nonce = randomBytes(NONCE_BYTES);
    let scanner: SyncScanner | undefined = new SyncScanner(nonce, STALE_LIMIT_BYTES);
    let channel: Channel | undefined;
    let isOver = false;

    const fail = (cause: Error): void => {
      if (isOver) return;
      isOver = true;
      options.signal?.removeEventListener('abort', onAbort);
      link.destroy(cause);
      if (channel === undefined) {
        reject(cause);
        return;
      }
      channel.abandon({ kind: 'lost', cause });
      options.onClose?.(cause);
    };
    const onAbort = (): void => fail(toError(options.signal?.reason));
    const decoder = new FrameDecoder(
      'refuse',
      (encoded) => {
        if (channel !== undefined) {
          channel.receive(encoded);
          return;
        }
        const hello = checkReply(
          FrameCodec.decode(Buffer.from(encoded)).helloReply as HelloReply | null,
          nonce,
        );
        channel = new Channel({
          role: 'host',
          link,
          sendWindow: hello.window,
          receiveWindow: DEFAULT_WINDOW_BYTES,
          capabilities: hello.capabilities,
          ...(options.onFault && { onFault: options.onFault }),
        });
        options.signal?.removeEventListener('abort', onAbort);
        resolve({ channel, hello });
      },
      true,
    );

    link.start({
      data(chunk) {
        if (isOver) return;
        try {
          const rest = scanner === undefined ? chunk : scanner.push(chunk);
          if (rest === undefined) return;
          scanner = undefined;
          decoder.push(rest);
        } catch (error) {
          const cause = toError(error);
          fail(cause instanceof ProtocolViolation ? cause : new ProtocolViolation(cause.message, { cause }));
        }
      },
      drain: () => channel?.drained(),
      close: (cause) => fail(cause ?? new Error('the channel to the guest agent was closed')),
    });
    if (options.signal?.aborted) onAbort();
    if (isOver) return;
    options.signal?.addEventListener('abort', onAbort);
    const hello = {
      version: PROTOCOL_VERSION,
      nonce,
      incarnation: options.incarnation,
      window: DEFAULT_WINDOW_BYTES,
    };
    link.write([...(options.needsResync ? [PADDING] : []), ...encodeFrame({ hello })]);
  });
}

function checkReply(reply: HelloReply | null | undefined, nonce: Buffer): HelloReply {
  if (!reply) throw new ProtocolViolation('the first frame of the guest agent is not a hello');
  if (reply.version !== PROTOCOL_VERSION) {
    throw new ProtocolViolation(
      `the guest agent speaks protocol version ${reply.version}, this host agent ${PROTOCOL_VERSION}; bake the profile again`,
    );
  }
  if (!nonce.equals(reply.nonce)) throw new ProtocolViolation('the hello repeats another nonce');
  if (reply.window < MIN_WINDOW_BYTES || reply.window > MAX_WINDOW_BYTES) {
    throw new ProtocolViolation(`a window of ${reply.window} bytes is out of range`);
  }
  if (reply.capabilities.length > 64 || reply.capabilities.some((name) => name.length > 64)) {
    throw new ProtocolViolation('more capabilities than an agent can have');
  }
  if (reply.agentVersion.length > 64 || reply.bootId.length > 64) {
    throw new ProtocolViolation('a version or boot id that is too long');
  }
  return reply;
}

function toError(value: unknown): Error {
  return value instanceof Error ? value : new Error(String(value));
}
