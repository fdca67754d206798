// The format of a log record on disk: a header of 48 bytes, the text as it was produced, and the total length again, so
// that a log can be read backwards. Little-endian:
//   0 magic · 4 text bytes · 8 CRC-32 of what follows, the text and the record's own offset · 12 source · 13 stream ·
//   14 commands running at that time (u16) · 16 time (f64, Unix ms) · 24 next sequence number of the service (f64) ·
//   32 its ring (8 bytes) · 40 and 44 the incomplete last character of its stdout and stderr (byte count in the top
// byte)
import { crc32 } from 'node:zlib';

export const LOG_SOURCES = ['service', 'exec'] as const;
export type LogSource = (typeof LOG_SOURCES)[number];
export const LOG_STREAMS = ['stdout', 'stderr', 'event'] as const;
type LogStream = (typeof LOG_STREAMS)[number];

export type LogRecord = {
  readonly source: LogSource;
  readonly stream: LogStream;
  readonly timeMs: number;
  readonly text: string;
};

/** How far the service's output has been recorded. */
export type CapturePosition = {
  /** 16 hexadecimal digits. */
  readonly ring: string;
  readonly nextSeq: number;
  /** Beginning of a character that a later record of the ring completes; not yet in the log. */
  readonly held: { readonly stdout: Buffer; readonly stderr: Buffer };
};

const MAGIC = 0x4c584253;
const HEADER_BYTES = 48;
const TRAILER_BYTES = 4;
export const RECORD_OVERHEAD_BYTES = HEADER_BYTES + TRAILER_BYTES;
/** A longer text is not a valid record. */
export const MAX_TEXT_BYTES = 1024 * 1024;
/** Shorter texts are copied: that is cheaper than writing them separately. */
const COPY_BYTES = 4096;

export type NewRecord = {
  readonly source: LogSource;
  readonly stream: LogStream;
  readonly timeMs: number;
  readonly data: Buffer;
};

/** The encoded record, in one or more chunks; `data` itself may be one of them. */
export function encodeRecord(
  record: NewRecord,
  position: CapturePosition | undefined,
  offset: number,
  runningExecs = 0,
): Buffer[] {
  const { data } = record;
  const totalBytes = RECORD_OVERHEAD_BYTES + data.length;
  const isCopied = data.length < COPY_BYTES;
  const head = Buffer.allocUnsafe(isCopied ? totalBytes : HEADER_BYTES);
  head.writeUInt32LE(MAGIC, 0);
  head.writeUInt32LE(data.length, 4);
  head.writeUInt16LE(LOG_SOURCES.indexOf(record.source) | (LOG_STREAMS.indexOf(record.stream) << 8), 12);
  head.writeUInt16LE(Math.min(runningExecs, 0xffff), 14);
  head.writeDoubleLE(record.timeMs, 16);
  head.writeDoubleLE(position?.nextSeq ?? 0, 24);
  head.fill(0, 32, 48);
  if (position !== undefined) {
    head.write(position.ring, 32, 8, 'hex');
    writeHeld(head, 40, position.held.stdout);
    writeHeld(head, 44, position.held.stderr);
  }
  head.writeUInt32LE(checksum(head, data, offset), 8);
  if (isCopied) {
    head.set(data, HEADER_BYTES);
    head.writeUInt32LE(totalBytes, HEADER_BYTES + data.length);
    return [head];
  }
  const tail = Buffer.allocUnsafe(TRAILER_BYTES);
  tail.writeUInt32LE(totalBytes, 0);
  return [head, data, tail];
}

export type DecodedRecord = LogRecord & {
  readonly totalBytes: number;
  readonly position: CapturePosition | undefined;
  /** Number of commands that started before this record's end and ended after it. */
  readonly runningExecs: number;
};

/** The length of the record at `at`; 0 if it cannot be a record, undefined if too few bytes are available. */
export function recordLength(bytes: Buffer, at: number): number | undefined {
  if (bytes.length - at < HEADER_BYTES) return undefined;
  if (bytes.readUInt32LE(at) !== MAGIC) return 0;
  const textBytes = bytes.readUInt32LE(at + 4);
  return textBytes > MAX_TEXT_BYTES ? 0 : textBytes + RECORD_OVERHEAD_BYTES;
}

/** The source of the record at `at`, without decoding the rest. */
function sourceAt(bytes: Buffer, at: number): LogSource | undefined {
  return LOG_SOURCES[bytes[at + 12] ?? -1];
}

/** The record at `at`, whose log offset is `offset`; undefined if it is incomplete or invalid. */
export function decodeRecord(bytes: Buffer, at: number, offset: number): DecodedRecord | undefined {
  const totalBytes = recordLength(bytes, at);
  if (!totalBytes || bytes.length - at < totalBytes) return undefined;
  const head = bytes.subarray(at, at + HEADER_BYTES);
  const data = bytes.subarray(at + HEADER_BYTES, at + totalBytes - TRAILER_BYTES);
  if (head.readUInt32LE(8) !== checksum(head, data, offset)) return undefined;
  const source = sourceAt(bytes, at);
  const stream = LOG_STREAMS[head[13] ?? -1];
  if (source === undefined || stream === undefined) return undefined;
  const ring = head.toString('hex', 32, 40);
  return {
    source,
    stream,
    timeMs: head.readDoubleLE(16),
    text: data.toString('utf8'),
    totalBytes,
    runningExecs: head.readUInt16LE(14),
    position:
      ring === '0'.repeat(16)
        ? undefined
        : {
            ring,
            nextSeq: head.readDoubleLE(24),
            held: { stdout: readHeld(head, 40), stderr: readHeld(head, 44) },
          },
  };
}

/** The length that the trailer of the preceding record states. */
export function lengthBefore(bytes: Buffer, at: number): number {
  return at < TRAILER_BYTES ? 0 : bytes.readUInt32LE(at - TRAILER_BYTES);
}

function checksum(head: Buffer, data: Buffer, offset: number): number {
  const place = Buffer.allocUnsafe(8);
  place.writeDoubleLE(offset, 0);
  return crc32(data, crc32(head.subarray(12, HEADER_BYTES), crc32(place)));
}

function writeHeld(head: Buffer, at: number, held: Buffer): void {
  held.copy(head, at, 0, 3);
  head[at + 3] = held.length;
}

function readHeld(head: Buffer, at: number): Buffer {
  return Buffer.from(head.subarray(at, at + Math.min(3, head[at + 3] ?? 0)));
}
