// A byte link over a non-blocking descriptor: a virtio-serial port or a vsock connection.
import type { ByteLink, LinkEvents, PipedFrames, Relayed, StreamIntake } from '@sandboxd/proto';
import { HeldBytes } from '../lib/held-bytes.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import { INTAKE, LinkIntake } from './link-intake.ts';
import { readFramed } from './read-framed.ts';
import { StagingPipe } from './staging-pipe.ts';

const READ_BYTES = 65_536;
/**
 * Fewer bytes than this wait until the current event has been dealt with: each write is an exit to the VMM, and the end
 * of a command alone is four frames.
 */
const SMALL_BYTES = 4096;
/**
 * Bytes read and written in one go before the event loop gets its turn. A host that answers at once leaves something to read
 * after every write, for hours: commands' events would wait as long.
 */
const TURN_BYTES = 1024 * 1024;
/** What a read counts at least. */
const MIN_TURN_BYTES = 4096;

/** The link whose flow the addon sends; it sends one at a time. */
let addonRelay: FdLink | undefined;
const relayNumbers = new Float64Array(5);

export type FdLinkOptions = {
  readonly poller: Poller;
  /**
   * A socket ends once, for good. A port is never over: reading 0 bytes means that no host has it open now, and what
   * was written but not read is lost; then `onHostLeft` is called, and later bytes come from another host.
   */
  readonly onHostLeft?: () => void;
};

export class FdLink implements ByteLink {
  readonly isCopying = true;
  readonly #fd: number;
  readonly #options: FdLinkOptions;
  #events: LinkEvents | undefined;
  #watch: Watch | undefined;
  readonly #scratch = Buffer.allocUnsafeSlow(READ_BYTES);
  /** Held back until the end of the current event. */
  #small: Uint8Array[] = [];
  /** What the descriptor did not take. */
  readonly #unwritten = new HeldBytes();
  #isHostAway = false;
  #staging: StagingPipe | undefined;
  /** What the addon sends by itself; it reads the descriptor meanwhile, too. */
  #relayed: Relayed | undefined;
  /** Bytes that the addon has read are still to be dealt with. */
  #isReturning = false;
  #isEnding = false;
  #turnBytes = 0;
  readonly #intake: LinkIntake;

  /** Takes the descriptor over. */
  constructor(fd: number, options: FdLinkOptions) {
    this.#fd = fd;
    this.#options = options;
    // A port takes 32 KiB at once or nothing; a socket may take a part.
    this.#intake = new LinkIntake(fd, this.#scratch, options.onHostLeft !== undefined);
  }

  start(events: LinkEvents): void {
    this.#events = events;
    // Edge-triggered: a port without a host is "hung up" for as long as that lasts.
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

  writePiped(frames: PipedFrames): boolean {
    this.#writeNow(this.#small.splice(0));
    this.#turnBytes += frames.length;
    if (this.#watch === undefined || this.#isHostAway || this.#isBlocked()) {
      readFramed(frames, 0, (bytes) => {
        if (this.#isBlocked()) this.#unwritten.push(bytes);
      });
      return false;
    }
    if (frames.isPipe) this.#writeStaged(frames);
    else this.#writeFramed(frames);
    return this.#awaitRoom();
  }

  relay(relayed: Relayed): boolean {
    this.#writeNow(this.#small.splice(0));
    if (this.#watch === undefined || this.#isHostAway || this.#isBlocked() || addonRelay !== undefined)
      return false;
    if (this.#isReturning || this.#isEnding || this.#intake.isRunning) return false;
    if (this.#events?.missingBytes?.() !== 0) return false;
    this.#staging ??= new StagingPipe();
    const [stagingOut, stagingIn] = this.#staging.ends;
    const { source, stream, flow, credit, window } = relayed;
    const isPipe = relayed.isPipe ? 1 : 0;
    const [link, linkId] = [this.#fd, this.#watch.id];
    addon.startRelay(
      { link, linkId, source, isPipe, stagingOut, stagingIn, stream, flow, credit, window },
      relayed.length,
    );
    this.#relayed = relayed;
    addonRelay = this;
    return true;
  }

  reclaim(): void {
    const relayed = this.#relayed;
    if (relayed === undefined) return;
    this.#relayed = undefined;
    addonRelay = undefined;
    const { unwritten, unread } = addon.stopRelay(relayNumbers);
    const [credit = 0, moved = 0, isStaged = 0, hasHostLeft = 0, hasHungUp = 0] = relayNumbers;
    if (isStaged !== 0) this.#staging?.fill();
    if (unwritten !== undefined) this.#unwritten.push(unwritten);
    if (hasHostLeft !== 0) this.#onEnd();
    else if (this.#isBlocked()) this.#watch?.update(POLL.in | POLL.out | POLL.edge);
    this.#isReturning = unread !== undefined;
    relayed.returned(credit, moved, hasHungUp !== 0);
    this.#isReturning = false;
    if (unread !== undefined && this.#watch !== undefined && !this.#isHostAway) this.#events?.data(unread);
  }

  offerIntake(intake: StreamIntake): void {
    this.#intake.offer(intake);
  }

  destroy(cause?: Error): void {
    if (this.#watch === undefined || this.#isEnding) return;
    this.#isEnding = true;
    this.reclaim();
    this.#intake.stop();
    this.#watch.close();
    this.#watch = undefined;
    this.#small = [];
    this.#unwritten.clear();
    this.#staging?.close();
    this.#staging = undefined;
    addon.close(this.#fd);
    this.#events?.close(cause);
  }

  #onReady(mask: number): void {
    this.reclaim();
    this.#read();
    if (mask & POLL.out && this.#isBlocked()) this.#flush();
  }

  #read(): void {
    this.#readTurn();
    // The addon reads whole frames only.
    if (this.#relayed !== undefined && this.#events?.missingBytes?.() !== 0) this.reclaim();
  }

  #readTurn(): void {
    for (this.#turnBytes = 0; this.#turnBytes < TURN_BYTES; ) {
      // Where the addon sends a flow it reads the link for itself, from what waits there now on: never both.
      if (this.#watch === undefined || this.#relayed !== undefined) return;
      const missing = this.#intake.isOffered ? (this.#events?.missingBytes?.() ?? 0) : READ_BYTES;
      const got = missing === 0 ? this.#takeIn(TURN_BYTES - this.#turnBytes) : this.#readOnce(missing);
      if (got === NOT_NOW) return;
      if (got < 0) {
        this.#onEnd();
        return;
      }
      this.#turnBytes += Math.max(got, MIN_TURN_BYTES);
    }
    // What is left is an event again, which the intake deals with by itself.
    if (this.#intake.isRunning && !this.#isBlocked()) this.#watch?.update(POLL.in | POLL.edge);
    else setImmediate(() => this.#read());
  }

  #deliver(bytes: Buffer): void {
    // Before the bytes are dealt with: the answer to them is for the host that sent them.
    this.#isHostAway = false;
    this.#events?.data(bytes);
  }

  /** Has the intake read, and deals with what is not its own. The same numbers as `#readOnce`. */
  #takeIn(mostBytes: number): number {
    try {
      const { status, tookBytes, unread } = this.#intake.run(mostBytes, this.#isBlocked());
      if (unread.length > 0) this.#deliver(unread);
      if (status === INTAKE.nothingNow) return NOT_NOW;
      return status === INTAKE.hostLeft ? -1 : tookBytes + unread.length;
    } catch (error) {
      this.destroy(error as Error);
      return NOT_NOW;
    }
  }

  /** Reads for JavaScript: how many bytes; NOT_NOW; -1 at the end. */
  #readOnce(mostBytes: number): number {
    try {
      const got = addon.receive(this.#fd, this.#scratch, 0, Math.min(mostBytes, READ_BYTES));
      if (got === 0) return -1;
      if (got > 0) this.#deliver(this.#scratch.subarray(0, got));
      return got;
    } catch (error) {
      this.destroy(error as Error);
      return NOT_NOW;
    }
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
    this.#staging?.close();
    this.#staging = undefined;
    this.#options.onHostLeft();
  }

  #writeNow(chunks: readonly Uint8Array[]): boolean {
    if (this.#watch === undefined || chunks.length === 0) return true;
    let written = this.#writeGathered(chunks);
    for (const chunk of chunks) {
      if (written < chunk.length) this.#unwritten.push(chunk.subarray(written));
      written = Math.max(0, written - chunk.length);
    }
    if (this.#unwritten.sizeBytes === 0) return true;
    // Waiting for room only now: every piece that the host takes would wake the agent otherwise.
    this.#watch?.update(POLL.in | POLL.out | POLL.edge);
    return false;
  }

  #flush(): void {
    this.#flushAll();
    if (this.#watch === undefined || this.#isBlocked()) return;
    this.#watch.update(POLL.in | POLL.edge);
    this.#events?.drain();
  }

  #isBlocked(): boolean {
    return this.#unwritten.sizeBytes > 0 || this.#staging?.isEmpty === false;
  }

  /** Whether everything is written; waits for room otherwise, and only then: every piece the host takes would wake us. */
  #awaitRoom(): boolean {
    if (!this.#isBlocked()) return this.#watch !== undefined;
    this.#watch?.update(POLL.in | POLL.out | POLL.edge);
    return false;
  }

  #writeStaged(frames: PipedFrames): void {
    this.#staging ??= new StagingPipe();
    this.#staging.stage(frames, (bytes) => this.#unwritten.push(bytes));
    this.#flushAll();
  }

  #writeFramed(frames: PipedFrames): void {
    const { source, length, frameBytes, header, lastHeader, trailer } = frames;
    try {
      const result = addon.writeFramed(this.#fd, source, length, frameBytes, header, lastHeader, trailer);
      if (result >= 0) return;
      this.#unwritten.push(addon.takeUnwritten());
      const left = length - (-1 - result);
      if (left > 0) readFramed({ ...frames, length: left }, 0, (bytes) => this.#unwritten.push(bytes));
    } catch (error) {
      this.destroy(error as Error);
    }
  }

  /** Writes what waits, what is staged first, as far as there is room. */
  #flushAll(): void {
    try {
      if (this.#staging?.flush(this.#fd) === false) return;
    } catch (error) {
      this.destroy(error as Error);
      return;
    }
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
