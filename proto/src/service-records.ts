// Encoding of a service's output on the wire and in the guest's ring: a header of 24 bytes, then one record's payload.
//   0 type · 1–3 zero · 4 payload bytes (u32) · 8 sequence number (f64) · 16 Unix time in ms (f64); little-endian.
import { ProtocolViolation } from './errors.ts';
import { MAX_DATA_BYTES } from './limits.ts';

export const SERVICE_RECORD = {
  stdout: 1,
  stderr: 2,
  /** Records before `seq` were dropped: the payload is two f64, the number of records and of output bytes. */
  gap: 3,
  /** The following records, from `seq` on, belong to the ring whose id is the payload. */
  ring: 4,
} as const;

export const SERVICE_HEADER_BYTES = 24;
/** A record and its header fit into one data frame. */
export const MAX_SERVICE_RECORD_BYTES = MAX_DATA_BYTES - 32 - SERVICE_HEADER_BYTES;

type ServiceRecordHeader = {
  readonly type: number;
  readonly sizeBytes: number;
  readonly seq: number;
  readonly unixMs: number;
};

export type ServiceRecord =
  | {
      readonly kind: 'output';
      readonly stream: 'stdout' | 'stderr';
      readonly seq: number;
      readonly unixMs: number;
      readonly data: Buffer;
    }
  | { readonly kind: 'gap'; readonly seq: number; readonly records: number; readonly bytes: number }
  | { readonly kind: 'ring'; readonly seq: number; readonly id: string };

export function writeServiceHeader(
  to: Buffer,
  at: number,
  { type, sizeBytes, seq, unixMs }: ServiceRecordHeader,
): void {
  to.writeUInt32LE(type, at);
  to.writeUInt32LE(sizeBytes, at + 4);
  to.writeDoubleLE(seq, at + 8);
  to.writeDoubleLE(unixMs, at + 16);
}

export function encodeGap(seq: number, records: number, bytes: number): Buffer {
  const record = Buffer.alloc(SERVICE_HEADER_BYTES + 16);
  writeServiceHeader(record, 0, { type: SERVICE_RECORD.gap, sizeBytes: 16, seq, unixMs: 0 });
  record.writeDoubleLE(records, SERVICE_HEADER_BYTES);
  record.writeDoubleLE(bytes, SERVICE_HEADER_BYTES + 8);
  return record;
}

export function encodeRingStart(seq: number, id: string): Buffer {
  const record = Buffer.alloc(SERVICE_HEADER_BYTES + id.length);
  writeServiceHeader(record, 0, { type: SERVICE_RECORD.ring, sizeBytes: id.length, seq, unixMs: 0 });
  record.write(id, SERVICE_HEADER_BYTES, 'latin1');
  return record;
}

/** Decodes records from chunks of any size. An invalid record is a ProtocolViolation, because the sender is a guest. */
export class ServiceRecordDecoder {
  #parts: Buffer[] = [];
  #heldBytes = 0;
  #neededBytes = SERVICE_HEADER_BYTES;

  /** Whether the bytes so far end at a record boundary. */
  get isAtBoundary(): boolean {
    return this.#heldBytes === 0;
  }

  push(chunk: Buffer): ServiceRecord[] {
    this.#parts.push(chunk);
    this.#heldBytes += chunk.length;
    // Chunks are joined only for a complete record, so that single-byte chunks do not cause quadratic copying.
    if (this.#heldBytes < this.#neededBytes) return [];
    const bytes = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts, this.#heldBytes);
    const records: ServiceRecord[] = [];
    let at = 0;
    for (;;) {
      this.#neededBytes = SERVICE_HEADER_BYTES;
      if (bytes.length - at < this.#neededBytes) break;
      const sizeBytes = bytes.readUInt32LE(at + 4);
      if (sizeBytes > MAX_SERVICE_RECORD_BYTES) throw new ProtocolViolation(`a record of ${sizeBytes} bytes`);
      this.#neededBytes += sizeBytes;
      const end = at + this.#neededBytes;
      if (bytes.length < end) break;
      records.push(toRecord(bytes, at, bytes.subarray(at + SERVICE_HEADER_BYTES, end)));
      at = end;
    }
    this.#heldBytes = bytes.length - at;
    this.#parts = at === bytes.length ? [] : [Buffer.from(bytes.subarray(at))];
    return records;
  }
}

function toRecord(bytes: Buffer, at: number, payload: Buffer): ServiceRecord {
  const type = bytes[at];
  const seq = toCount(bytes.readDoubleLE(at + 8), 'sequence number');
  if (type === SERVICE_RECORD.stdout || type === SERVICE_RECORD.stderr) {
    const stream = type === SERVICE_RECORD.stdout ? 'stdout' : 'stderr';
    const unixMs = toCount(Math.round(bytes.readDoubleLE(at + 16)), 'time');
    return { kind: 'output', stream, seq, unixMs, data: payload };
  }
  if (type === SERVICE_RECORD.gap && payload.length === 16) {
    const records = toCount(payload.readDoubleLE(0), 'count');
    return { kind: 'gap', seq, records, bytes: toCount(payload.readDoubleLE(8), 'count') };
  }
  const id = payload.toString('latin1');
  if (type === SERVICE_RECORD.ring && /^[0-9a-f]{16}$/.test(id)) return { kind: 'ring', seq, id };
  throw new ProtocolViolation(`a service record of type ${type} with ${payload.length} bytes`);
}

function toCount(value: number, what: string): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new ProtocolViolation(`a service record whose ${what} is ${value}`);
}
