// A guest that a test simulates byte by byte, against the host's side of a connection.
import {
  connectHost,
  FrameCodec,
  type FrameInput,
  type HostConnection,
  type HostConnectionOptions,
} from '@sandboxd/proto';
import { FrameDecoder } from '../../../../proto/src/wire/frame-decoder.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../../../proto/src/wire/sync-mark.ts';
import { type MemoryLinks, memoryLinks } from '../../../support/memory-link.ts';

export class RawGuest {
  readonly links: MemoryLinks = memoryLinks(1 << 20);
  readonly frames: ReturnType<typeof FrameCodec.decode>[] = [];
  readonly connection: Promise<HostConnection>;
  /** Why the host closed the connection after it was established. */
  closeCause: Error | undefined;

  constructor(options: Partial<HostConnectionOptions> = {}) {
    const decoder = new FrameDecoder('skip', (encoded) => this.frames.push(FrameCodec.decode(encoded)));
    this.links.guest.start({
      data: (chunk) => decoder.push(Buffer.from(chunk)),
      drain: () => undefined,
      close: () => undefined,
    });
    this.connection = connectHost(this.links.host, {
      incarnation: 'one',
      needsResync: false,
      onClose: (cause) => {
        this.closeCause = cause;
      },
      ...options,
    });
    this.connection.catch(() => undefined);
    this.links.host.deliver(1 << 20);
  }

  get nonce(): Uint8Array {
    return this.frames[0]?.hello?.nonce ?? new Uint8Array(0);
  }

  /** Sends bytes to the host at once. */
  write(...chunks: readonly Uint8Array[]): void {
    this.links.guest.write(chunks);
    this.links.guest.deliver(1 << 30);
  }

  send(...frames: readonly FrameInput[]): void {
    this.write(...frames.flatMap((frame) => encodeFrame(frame)));
  }

  /** A valid reply to the hello, with `changes`. */
  greet(changes: object = {}): Promise<HostConnection> {
    const helloReply = {
      version: 1,
      nonce: this.nonce,
      window: 65_536,
      agentVersion: '1',
      bootId: 'b',
      ...changes,
    };
    this.write(syncMark(this.nonce), ...encodeFrame({ helloReply }));
    return this.connection;
  }
}
