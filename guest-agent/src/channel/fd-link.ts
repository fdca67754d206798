// A byte link over a non-blocking descriptor: a virtio-serial port or a vsock connection.
import {
  type ByteLink,
  ByteQueue,
  type DirectWrite,
  type LinkEvents,
  type SourceFrames,
} from '@sandboxd/proto';
import { blockPool } from '../lib/block-pool.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import { LINK_WRITE, LinkWrites } from './link-writes.ts';

const READ_BYTES = 65_536;
/**
 * Writes below this size wait until the current event has been handled. Each write causes a VM exit, and the end of a
 * command alone produces four frames.
 */
const SMALL_BYTES = 4096;
/**
 * Bytes read and written before control returns to the event loop. A host that answers at once leaves data to read
 * after every write, so without this limit other events would starve.
 */
const TURN_BYTES = 1024 * 1024;
/** Each read counts as at least this many bytes. */
const MIN_TURN_BYTES = 4096;
/** Used in place of the link's descriptor: frames are encoded but not written. */
const NOWHERE = -1;

type FdLinkOptions = {
  readonly poller: Poller;
  /**
   * A socket ends once. A port never ends: reading 0 bytes means that no host has it open now, and bytes that were
   * written but not read are lost. Then `onHostLeft` is called, and later bytes come from another host.
   */
  readonly onHostLeft?: () => void;
  /** Whether descriptors are copied to the host in native code, because JavaScript is slow in an emulated guest. */
  readonly isEmulated?: boolean;
};

export class FdLink implements ByteLink {
  readonly #fd: number;
  readonly #options: FdLinkOptions;
  #events: LinkEvents | undefined;
  #watch: Watch | undefined;
  readonly #scratch = Buffer.allocUnsafeSlow(READ_BYTES);
  /** Small writes that wait for the end of the current event. */
  #small: Uint8Array[] = [];
  /** Bytes that the descriptor has not accepted yet. */
  readonly #unwritten = new ByteQueue(blockPool);
  #isHostAway = false;
  #isEnding = false;
  #turnBytes = 0;
  readonly #writes: LinkWrites;
  readonly writeFrom?: NonNullable<ByteLink['writeFrom']>;

  /** Takes ownership of the descriptor. */
  constructor(fd: number, options: FdLinkOptions) {
    this.#fd = fd;
    this.#options = options;
    this.#writes = new LinkWrites(fd, this.#scratch);
    if (options.isEmulated) this.writeFrom = (frames) => this.#writeFrom(frames);
  }

  start(events: LinkEvents): void {
    this.#events = events;
    // Edge-triggered, because a port without a host reports "hung up" continuously.
    this.#watch = this.#options.poller.watch(this.#fd, POLL.in | POLL.edge, (mask) => this.#onReady(mask));
  }

  write(chunks: readonly Uint8Array[]): boolean {
    if (this.#watch === undefined || this.#isHostAway) return false;
    if (this.#isBlocked()) {
      for (const chunk of chunks) this.#unwritten.push(chunk);
      return false;
    }
    let sizeBytes = 0;
    for (const chunk of chunks) sizeBytes += chunk.length;
    this.#turnBytes += sizeBytes;
    if (sizeBytes >= SMALL_BYTES) return this.#writeNow([...this.#small.splice(0), ...chunks]);
    if (this.#small.length === 0) queueMicrotask(() => this.#writeNow(this.#small.splice(0)));
    for (const chunk of chunks) this.#small.push(Buffer.from(chunk));
    return true;
  }

  offerDirectWrite(stream: number, directWrite: DirectWrite): void {
    if (this.#options.isEmulated) this.#writes.offer(stream, directWrite);
  }

  destroy(cause?: Error): void {
    if (this.#watch === undefined || this.#isEnding) return;
    this.#isEnding = true;
    this.#writes.stop();
    this.#watch.close();
    this.#watch = undefined;
    this.#small = [];
    this.#unwritten.clear();
    addon.close(this.#fd);
    this.#events?.close(cause);
  }

  #onReady(mask: number): void {
    this.#read();
    if (mask & POLL.out && this.#isBlocked()) this.#flush();
  }

  #read(): void {
    for (this.#turnBytes = 0; this.#turnBytes < TURN_BYTES; ) {
      if (this.#watch === undefined) return;
      const missing = this.#writes.isOffered ? (this.#events?.missingBytes?.() ?? 0) : READ_BYTES;
      const got = missing === 0 ? this.#takeIn() : this.#readOnce(missing);
      if (got === NOT_NOW) return;
      if (got < 0) {
        this.#onEnd();
        return;
      }
      this.#turnBytes += Math.max(got, MIN_TURN_BYTES);
    }
    setImmediate(() => this.#read());
  }

  /**
   * Runs the direct write, and delivers the bytes that are not for it. Returns the same values as `#readOnce`.
   */
  #takeIn(): number {
    try {
      const { status, takenBytes, unread } = this.#writes.run(TURN_BYTES - this.#turnBytes);
      if (unread.length > 0) this.#deliver(unread);
      if (status === LINK_WRITE.nothingNow) return NOT_NOW;
      return status === LINK_WRITE.hostLeft ? -1 : takenBytes + unread.length;
    } catch (error) {
      this.destroy(error as Error);
      return NOT_NOW;
    }
  }

  /** Reads for JavaScript. Returns the byte count, NOT_NOW, or -1 at the end. */
  #readOnce(maxBytes: number): number {
    try {
      const got = addon.read(this.#fd, this.#scratch, 0, Math.min(maxBytes, READ_BYTES));
      if (got === 0) return -1;
      if (got > 0) this.#deliver(this.#scratch.subarray(0, got));
      return got;
    } catch (error) {
      this.destroy(error as Error);
      return NOT_NOW;
    }
  }

  #deliver(bytes: Buffer): void {
    // Set before delivery: an answer to these bytes is for the host that sent them.
    this.#isHostAway = false;
    this.#events?.data(bytes);
  }

  #onEnd(): void {
    if (this.#options.onHostLeft === undefined) {
      this.destroy();
      return;
    }
    if (this.#isHostAway) return;
    this.#isHostAway = true;
    this.#small = [];
    this.#unwritten.clear();
    this.#options.onHostLeft();
  }

  #writeNow(chunks: readonly Uint8Array[]): boolean {
    if (this.#watch === undefined || chunks.length === 0) return true;
    let written = this.#writeGathered(chunks);
    for (const chunk of chunks) {
      if (written < chunk.length) this.#enqueue(chunk.subarray(written));
      written = Math.max(0, written - chunk.length);
    }
    return this.#watch !== undefined && !this.#isBlocked();
  }

  #flush(): void {
    this.#flushAll();
    if (this.#watch === undefined || this.#isBlocked()) return;
    this.#watch.update(POLL.in | POLL.edge);
    this.#events?.drain();
  }

  #isBlocked(): boolean {
    return this.#unwritten.sizeBytes > 0;
  }

  #writeFrom({
    descriptor,
    stream,
    flow,
    length,
  }: SourceFrames): ReturnType<NonNullable<ByteLink['writeFrom']>> {
    this.#writeNow(this.#small.splice(0));
    const isTaken = this.#watch !== undefined && !this.#isHostAway;
    const isOpen = isTaken && !this.#isBlocked();
    try {
      const result = addon.writeFrom(isOpen ? this.#fd : NOWHERE, descriptor, stream, flow, length);
      const unwritten = addon.takeUnwritten();
      this.#turnBytes += Math.max(0, result);
      if (isTaken && unwritten !== undefined) this.#enqueue(unwritten);
      return { result, hasSpace: isTaken && !this.#isBlocked() };
    } catch (error) {
      this.destroy(error as Error);
      return { result: 0, hasSpace: false };
    }
  }

  /** Starts to wait for writability only here. Otherwise the agent would wake for every chunk that the host takes. */
  #enqueue(bytes: Uint8Array): void {
    if (this.#watch === undefined) return;
    if (!this.#isBlocked()) this.#watch.update(POLL.in | POLL.out | POLL.edge);
    this.#unwritten.push(bytes);
  }

  /** Writes queued bytes until the descriptor is full. */
  #flushAll(): void {
    for (let first = this.#unwritten.first(); first !== undefined; first = this.#unwritten.first()) {
      const written = this.#writeGathered([first]);
      this.#unwritten.drop(written);
      if (written < first.length) return;
    }
  }

  #writeGathered(chunks: readonly Uint8Array[]): number {
    try {
      return addon.writeGathered(this.#fd, chunks);
    } catch (error) {
      this.destroy(error as Error);
      return 0;
    }
  }
}
