// Encoding of changes in a watched directory: a header of 12 bytes, then the names.
//   0 type · 1 flags · 2 bytes of the path (u16) · 4 bytes of the former path (u16) · 6 zero · 8 count (u32);
//   little-endian. Paths are relative to the watched directory.
import { ProtocolViolation } from './errors.ts';

const TYPES = ['armed', 'create', 'write', 'attrib', 'remove', 'rename', 'overflow'] as const;
export type WatchRecordType = (typeof TYPES)[number];

const HEADER_BYTES = 12;
/** PATH_MAX of Linux without its zero byte. */
const MAX_PATH_BYTES = 4095;
export const MAX_WATCH_RECORD_BYTES = HEADER_BYTES + 2 * MAX_PATH_BYTES;
/** The entry is a directory. */
const DIRECTORY = 1;
/** Of a write: the program has closed the file. */
const CLOSED = 2;

export type WatchRecord =
  /** From here on nothing is missed. After an overflow something was: the directory must be listed again. */
  | { readonly type: 'armed' | 'overflow'; readonly directories: number }
  | {
      readonly type: 'create' | 'write' | 'attrib' | 'remove' | 'rename';
      readonly path: Buffer;
      /** Of a rename. */
      readonly from: Buffer | undefined;
      readonly isDirectory: boolean;
      readonly isClosed: boolean;
    };

export type WatchRecordInput = {
  readonly type: WatchRecordType;
  /** Byte strings. */
  readonly path?: string;
  readonly from?: string;
  readonly isDirectory?: boolean;
  readonly isClosed?: boolean;
  readonly directories?: number;
};

export function watchRecordBytes({ path = '', from = '' }: WatchRecordInput): number {
  return HEADER_BYTES + path.length + from.length;
}

/** Writes the record; the number of its bytes. */
export function writeWatchRecord(to: Buffer, at: number, record: WatchRecordInput): number {
  const { type, path = '', from = '', isDirectory = false, isClosed = false, directories = 0 } = record;
  to[at] = TYPES.indexOf(type);
  to[at + 1] = (isDirectory ? DIRECTORY : 0) | (isClosed ? CLOSED : 0);
  to.writeUInt16LE(path.length, at + 2);
  to.writeUInt16LE(from.length, at + 4);
  to.writeUInt16LE(0, at + 6);
  to.writeUInt32LE(directories, at + 8);
  to.write(path, at + HEADER_BYTES, 'latin1');
  to.write(from, at + HEADER_BYTES + path.length, 'latin1');
  return watchRecordBytes(record);
}

/**
 * Splits chunks of any size into whole records, and checks each in place, so a hostile guest makes no objects.
 * ProtocolViolation for what is not a record, or not the first one of a watch.
 */
export class WatchRecordReader {
  #parts: Buffer[] = [];
  #heldBytes = 0;
  #neededBytes = HEADER_BYTES;
  #isArmed = false;

  /** The complete records so far, for `decodeWatchRecord`. */
  push(chunk: Buffer): Buffer | undefined {
    this.#parts.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#heldBytes < this.#neededBytes) return undefined;
    const bytes = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts, this.#heldBytes);
    let at = 0;
    for (;;) {
      this.#neededBytes = HEADER_BYTES;
      if (bytes.length - at < HEADER_BYTES) break;
      this.#neededBytes = recordBytes(bytes, at);
      if (bytes.length - at < this.#neededBytes) break;
      this.#check(bytes, at);
      at += this.#neededBytes;
    }
    this.#heldBytes = bytes.length - at;
    this.#parts = this.#heldBytes === 0 ? [] : [Buffer.from(bytes.subarray(at))];
    return at === 0 ? undefined : bytes.subarray(0, at);
  }

  #check(bytes: Buffer, at: number): void {
    const type = typeOf(bytes, at);
    if ((type === 'armed') === this.#isArmed)
      throw new ProtocolViolation(this.#isArmed ? 'a watch that is armed twice' : 'a change before a watch');
    this.#isArmed = true;
    const path = at + HEADER_BYTES;
    const from = path + bytes.readUInt16LE(at + 2);
    const end = from + bytes.readUInt16LE(at + 4);
    const hasPath = type !== 'armed' && type !== 'overflow';
    if (hasPath !== isPath(bytes, path, from) || (type === 'rename') !== isPath(bytes, from, end))
      throw new ProtocolViolation(`a change of type ${type} without a valid name`);
  }
}

function typeOf(bytes: Buffer, at: number): WatchRecordType {
  const type = TYPES[bytes[at] ?? -1];
  if (type === undefined) throw new ProtocolViolation(`a change of type ${bytes[at]}`);
  return type;
}

function recordBytes(bytes: Buffer, at: number): number {
  const path = bytes.readUInt16LE(at + 2);
  const from = bytes.readUInt16LE(at + 4);
  if (path > MAX_PATH_BYTES || from > MAX_PATH_BYTES)
    throw new ProtocolViolation(`a change of a path of ${Math.max(path, from)} bytes`);
  return HEADER_BYTES + path + from;
}

const SLASH = 0x2f;
const DOT = 0x2e;

/** Whether the bytes are a relative path whose parts are names: not empty, no NUL, neither `.` nor `..`. */
function isPath(bytes: Buffer, start: number, end: number): boolean {
  if (start === end) return false;
  let partAt = start;
  for (let at = start; at <= end; at++) {
    const byte = at === end ? SLASH : bytes[at];
    if (byte === 0) throw new ProtocolViolation('a change of a name with a NUL');
    if (byte !== SLASH) continue;
    const length = at - partAt;
    const areDots = length <= 2 && bytes[partAt] === DOT && (length === 1 || bytes[partAt + 1] === DOT);
    if (length === 0 || areDots) throw new ProtocolViolation('a change of an invalid name');
    partAt = at + 1;
  }
  return true;
}

/** One record of checked bytes, and where the next begins. */
export function decodeWatchRecord(bytes: Buffer, at: number): { record: WatchRecord; next: number } {
  const type = typeOf(bytes, at);
  const next = at + recordBytes(bytes, at);
  if (type === 'armed' || type === 'overflow')
    return { record: { type, directories: bytes.readUInt32LE(at + 8) }, next };
  const pathAt = at + HEADER_BYTES;
  const fromAt = pathAt + bytes.readUInt16LE(at + 2);
  const flags = bytes[at + 1] ?? 0;
  const record = {
    type,
    path: bytes.subarray(pathAt, fromAt),
    from: type === 'rename' ? bytes.subarray(fromAt, next) : undefined,
    isDirectory: (flags & DIRECTORY) !== 0,
    isClosed: (flags & CLOSED) !== 0,
  };
  return { record, next };
}
