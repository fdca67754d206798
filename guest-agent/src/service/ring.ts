// The newest output of a service or of a detached command in a bounded amount of memory: numbered records; the oldest
// are dropped first.
import { MAX_SERVICE_RECORD_BYTES, SERVICE_HEADER_BYTES, writeServiceHeader } from '@sandboxd/proto';

/** Every MARK_EVERY records, a position is stored, so that a search reads few records. */
const MARK_EVERY = 256;

export type RingCounts = {
  readonly firstSeq: number;
  readonly nextSeq: number;
  readonly droppedRecords: number;
  readonly droppedBytes: number;
};

/**
 * A position between two records: the next record's number and its offset from the first byte ever written to the
 * ring.
 */
export type RingPlace = { readonly seq: number; readonly at: number };

/** Grants memory to rings that share a limit. */
export interface RingMemory {
  /** False when there is no memory for that; a guaranteed request is always granted. */
  take(bytes: number, isGuaranteed: boolean): boolean;
  give(bytes: number): void;
}

/** Memory that a ring with a shared limit always gets, and the size of its records, which must fit into it. */
const FIRST_BYTES = 16 * 1024;
const SHARED_RECORD_BYTES = 8 * 1024;

export class OutputRing {
  readonly id: string;
  /** Maximum size of one record. */
  readonly maxRecordBytes: number;
  readonly #limitBytes: number;
  /** Size of the memory, headers included, and the size up to which it may grow. */
  #capacityBytes: number;
  readonly #maxCapacityBytes: number;
  readonly #shared: RingMemory | undefined;
  /** The ring of the next spec. */
  next: OutputRing | undefined;
  #memory: Buffer | undefined;
  #first: RingPlace = { seq: 0, at: 0 };
  #end: RingPlace = { seq: 0, at: 0 };
  /** Positions of the retained records whose number is divisible by MARK_EVERY, oldest first. */
  #marks: RingPlace[] = [];
  #droppedBytes = 0;
  #isSealed = false;
  readonly #header = Buffer.alloc(SERVICE_HEADER_BYTES);
  readonly #listeners = new Set<() => void>();

  /**
   * Retains at most `limitBytes` of output; less when records are tiny, and less when `shared` has no memory: then the
   * ring starts small and grows on demand.
   */
  constructor(id: string, limitBytes: number, shared?: RingMemory) {
    this.id = id;
    this.#limitBytes = Math.max(limitBytes, 1);
    this.#shared = shared;
    const maxRecordBytes = shared === undefined ? MAX_SERVICE_RECORD_BYTES : SHARED_RECORD_BYTES;
    this.maxRecordBytes = Math.min(maxRecordBytes, this.#limitBytes);
    // The header space assumes records of 48 bytes on average.
    this.#maxCapacityBytes = Math.ceil(this.#limitBytes * 1.5) + 4096;
    this.#capacityBytes =
      shared === undefined ? this.#maxCapacityBytes : Math.min(FIRST_BYTES, this.#maxCapacityBytes);
  }

  get counts(): RingCounts {
    return {
      firstSeq: this.#first.seq,
      nextSeq: this.#end.seq,
      droppedRecords: this.#first.seq,
      droppedBytes: this.#droppedBytes,
    };
  }

  /** Dropped records from `seq` on. Their byte count is an average unless `seq` is 0. */
  missedSince(seq: number): { readonly records: number; readonly bytes: number } {
    const records = Math.max(0, this.#first.seq - seq);
    const share = records === 0 ? 0 : records / this.#first.seq;
    return { records, bytes: Math.round(this.#droppedBytes * share) };
  }

  get first(): RingPlace {
    return this.#first;
  }

  get end(): RingPlace {
    return this.#end;
  }

  /** Whether the ring accepts no more records. */
  get isSealed(): boolean {
    return this.#isSealed;
  }

  /** Appends one record of 1 to `maxRecordBytes` bytes; `data` is copied. */
  append(type: number, data: Uint8Array, unixMs: number): void {
    this.#memory ??= this.#allocate();
    const { seq, at } = this.#end;
    const recordBytes = SERVICE_HEADER_BYTES + data.length;
    for (let over = this.#over(data.length); over !== undefined; over = this.#over(data.length))
      if (over !== 'memory' || !this.#grow()) this.#dropOldest();
    if (seq % MARK_EVERY === 0) this.#marks.push(this.#end);
    writeServiceHeader(this.#header, 0, { type, sizeBytes: data.length, seq, unixMs });
    this.#write(at, this.#header);
    this.#write(at + SERVICE_HEADER_BYTES, data);
    this.#end = { seq: seq + 1, at: at + recordBytes };
    for (const listener of this.#listeners) listener();
  }

  /** Position of the record `seq`; of the oldest record if `seq` was dropped; the end if `seq` is in the future. */
  find(seq: number): RingPlace {
    if (seq >= this.#end.seq) return this.#end;
    // Marks exist only for retained records.
    const mark = this.#marks[Math.floor(seq / MARK_EVERY) - (this.#marks[0]?.seq ?? 0) / MARK_EVERY];
    let place = mark ?? this.#first;
    while (place.seq < seq) place = this.#after(place);
    return place;
  }

  /**
   * Copies whole records from `place` on into `target`: as many as fit and carry at most `maxBytes` of output, but at
   * least one, which always fits into 65,536 bytes. `place` must not be dropped.
   */
  copy(
    place: RingPlace,
    target: Buffer,
    maxBytes: number,
  ): { readonly next: RingPlace; readonly copiedBytes: number; readonly outputBytes: number } {
    let next = place;
    let outputBytes = 0;
    while (next.seq < this.#end.seq) {
      const after = this.#after(next);
      const payloadBytes = after.at - next.at - SERVICE_HEADER_BYTES;
      if (after.at - place.at > target.length) break;
      if (next !== place && outputBytes + payloadBytes > maxBytes) break;
      outputBytes += payloadBytes;
      next = after;
    }
    const copiedBytes = next.at - place.at;
    this.#read(place.at, copiedBytes, target);
    return { next, copiedBytes, outputBytes };
  }

  seal(): void {
    this.#isSealed = true;
    const usedBytes = Math.max(1, this.#end.at - this.#first.at);
    if (this.#shared !== undefined && this.#memory !== undefined) this.#resize(this.#memory, usedBytes);
    for (const listener of this.#listeners) listener();
  }

  /** Drops all records of a sealed ring and frees its memory. */
  clear(): void {
    while (this.#first.seq < this.#end.seq) this.#dropOldest();
    if (this.#memory !== undefined) this.#shared?.give(this.#capacityBytes);
    this.#memory = undefined;
  }

  /** Calls `listener` after each change, until the returned function is called. */
  watch(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** What one more record of `sizeBytes` would exceed: the memory, or the limit of output. */
  #over(sizeBytes: number): 'memory' | 'output' | undefined {
    const records = this.#end.seq - this.#first.seq;
    if (records === 0) return undefined;
    const memoryBytes = this.#end.at - this.#first.at + SERVICE_HEADER_BYTES + sizeBytes;
    const outputBytes = memoryBytes - (records + 1) * SERVICE_HEADER_BYTES;
    if (outputBytes > this.#limitBytes) return 'output';
    return memoryBytes > this.#capacityBytes ? 'memory' : undefined;
  }

  /** The kernel allocates pages on the first write, so a large ring of a quiet service uses little memory. */
  #allocate(): Buffer {
    this.#shared?.take(this.#capacityBytes, true);
    return Buffer.allocUnsafeSlow(this.#capacityBytes);
  }

  #grow(): boolean {
    const capacityBytes = Math.min(2 * this.#capacityBytes, this.#maxCapacityBytes);
    const moreBytes = capacityBytes - this.#capacityBytes;
    if (this.#memory === undefined || moreBytes === 0 || !this.#shared?.take(moreBytes, false)) return false;
    this.#shared.give(moreBytes);
    this.#resize(this.#memory, capacityBytes);
    return true;
  }

  /** Moves the retained records into memory of another size, which they fit into. */
  #resize(old: Buffer, capacityBytes: number): void {
    const memory = Buffer.allocUnsafeSlow(capacityBytes);
    for (let at = this.#first.at; at < this.#end.at; ) {
      const [from, to] = [at % this.#capacityBytes, at % capacityBytes];
      const length = Math.min(this.#end.at - at, this.#capacityBytes - from, capacityBytes - to);
      old.copy(memory, to, from, from + length);
      at += length;
    }
    this.#shared?.give(this.#capacityBytes);
    this.#shared?.take(capacityBytes, true);
    this.#memory = memory;
    this.#capacityBytes = capacityBytes;
  }

  #dropOldest(): void {
    const after = this.#after(this.#first);
    this.#droppedBytes += after.at - this.#first.at - SERVICE_HEADER_BYTES;
    if (this.#marks[0]?.seq === this.#first.seq) this.#marks.shift();
    this.#first = after;
  }

  #after({ seq, at }: RingPlace): RingPlace {
    return { seq: seq + 1, at: at + SERVICE_HEADER_BYTES + this.#sizeAt(at + 4) };
  }

  /** The u32 at `at`, which may wrap around the end of the memory. */
  #sizeAt(at: number): number {
    let value = 0;
    for (let n = 3; n >= 0; n--) value = value * 256 + (this.#memory?.[(at + n) % this.#capacityBytes] ?? 0);
    return value;
  }

  #write(at: number, data: Uint8Array): void {
    const start = at % this.#capacityBytes;
    const untilEnd = this.#capacityBytes - start;
    this.#memory?.set(data.subarray(0, untilEnd), start);
    this.#memory?.set(data.subarray(untilEnd), 0);
  }

  #read(at: number, length: number, target: Buffer): void {
    const start = at % this.#capacityBytes;
    const untilEnd = Math.min(length, this.#capacityBytes - start);
    this.#memory?.copy(target, 0, start, start + untilEnd);
    this.#memory?.copy(target, untilEnd, 0, length - untilEnd);
  }
}
