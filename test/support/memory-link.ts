// Two byte links connected in memory, for tests of the agent protocol. Bytes move only when the test requests it, in
// chunks of any size. Each direction has a limited buffer, above which its writer gets backpressure.
import type { ByteLink, LinkEvents } from '@sandboxd/proto';

type LinkSide = 'host' | 'guest';

class MemoryLink implements ByteLink {
  readonly #capacityBytes: number;
  #peer: MemoryLink | undefined;
  #events: LinkEvents | undefined;
  #queue: Buffer[] = [];
  #wantsDrain = false;
  queuedBytes = 0;
  maxQueuedBytes = 0;
  writtenBytes = 0;
  isClosed = false;

  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes;
  }

  join(peer: MemoryLink): void {
    this.#peer = peer;
  }

  /** May be called again by this side's next owner. */
  start(events: LinkEvents): void {
    this.#events = events;
  }

  write(chunks: readonly Uint8Array[]): boolean {
    if (this.isClosed) return false;
    for (const chunk of chunks) {
      this.#queue.push(Buffer.from(chunk));
      this.queuedBytes += chunk.length;
      this.writtenBytes += chunk.length;
    }
    this.maxQueuedBytes = Math.max(this.maxQueuedBytes, this.queuedBytes);
    this.#wantsDrain ||= this.queuedBytes >= this.#capacityBytes;
    return !this.#wantsDrain;
  }

  destroy(cause?: Error): void {
    this.close(cause);
    this.#peer?.close(cause);
  }

  /** Discards written but undelivered bytes, as a crash of the writer does. */
  drop(): void {
    this.#queue = [];
    this.queuedBytes = 0;
    this.#wantsDrain = false;
  }

  /** For the peer. */
  receive(chunk: Buffer): void {
    this.#events?.data(chunk);
  }

  /** Delivers up to `maxBytes` to the other side; returns the number. */
  deliver(maxBytes: number): number {
    const all = Buffer.concat(this.#queue);
    const piece = all.subarray(0, maxBytes);
    if (piece.length === 0) return 0;
    this.#queue = all.length > piece.length ? [all.subarray(piece.length)] : [];
    this.queuedBytes -= piece.length;
    const lent = Buffer.from(piece);
    this.#peer?.receive(lent);
    // A receiver that retains a borrowed buffer finds this in it.
    lent.fill(0xdb);
    if (this.#wantsDrain && this.queuedBytes < this.#capacityBytes && !this.isClosed) {
      this.#wantsDrain = false;
      this.#events?.drain();
    }
    return piece.length;
  }

  /** For the peer. */
  close(cause?: Error): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#queue = [];
    this.queuedBytes = 0;
    queueMicrotask(() => this.#events?.close(cause));
  }
}

export type MemoryLinks = Readonly<Record<LinkSide, MemoryLink>>;

export function memoryLinks(capacityBytes = 64 * 1024): MemoryLinks {
  const links = { host: new MemoryLink(capacityBytes), guest: new MemoryLink(capacityBytes) };
  links.host.join(links.guest);
  links.guest.join(links.host);
  return links;
}

/** Delivers bytes in both directions, `pieceBytes()` at a time, until both are empty. */
export async function settle(links: MemoryLinks, pieceBytes: () => number = () => 65_536): Promise<void> {
  for (let quietRounds = 0; quietRounds < 3; ) {
    const moved = links.host.deliver(pieceBytes()) + links.guest.deliver(pieceBytes());
    quietRounds = moved === 0 ? quietRounds + 1 : 0;
    if (moved === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}
