// Reads pages of a log, from an offset or from the end.
import { type FileHandle, open } from 'node:fs/promises';
import { errnoOf } from '../lib/errors.ts';
import {
  type DecodedRecord,
  decodeRecord,
  type LogRecord,
  type LogSource,
  lengthBefore,
  MAX_TEXT_BYTES,
  RECORD_OVERHEAD_BYTES,
  recordLength,
} from './record.ts';
import { listSegments, type Segment } from './segments.ts';

const MAX_RECORDS = 5000;
/** Maximum text of one page; the first record is always included, whatever its length. */
const MAX_PAGE_BYTES = 1024 * 1024;
const TAIL_BYTES = 64 * 1024;
const CHUNK_BYTES = 256 * 1024;

export type LogQuery = {
  /** The `nextOffset` of an earlier page; absent: the end of the log. */
  readonly since?: number;
  readonly source?: LogSource;
  /** Only a log of this tenant; absent: of any tenant. */
  readonly tenant?: string;
};

export type LogPage = { readonly nextOffset: number; readonly records: readonly LogRecord[] };

/** `end` is the writer's position; absent for a log that is no longer written. Undefined if there is no such log. */
export async function readLog(dir: string, query: LogQuery, end?: number): Promise<LogPage | undefined> {
  for (;;) {
    const listed = await listSegments(dir);
    if (listed === undefined) return undefined;
    const segments = clip(listed, end ?? Number.POSITIVE_INFINITY);
    try {
      return query.since === undefined
        ? await readTail(segments, query.source)
        : await readFrom(segments, query.since, query.source);
    } catch (error) {
      // A rotation removed the file meanwhile: list the segments again.
      if (errnoOf(error) !== 'ENOENT') throw error;
    }
  }
}

function clip(segments: readonly Segment[], end: number): Segment[] {
  return segments
    .filter(({ start }) => start < end)
    .map((segment) => ({ ...segment, sizeBytes: Math.min(segment.sizeBytes, end - segment.start) }));
}

async function readFrom(
  segments: readonly Segment[],
  since: number,
  source: LogSource | undefined,
): Promise<LogPage> {
  const records: LogRecord[] = [];
  const first = segments[0];
  const last = segments.at(-1);
  if (first === undefined || last === undefined) return { nextOffset: 0, records };
  let offset = Math.min(Math.max(since, first.start), last.start + last.sizeBytes);
  let textBytes = 0;
  let hasMissed = since < first.start;
  for (const segment of segments) {
    const segmentEnd = segment.start + segment.sizeBytes;
    if (offset >= segmentEnd) continue;
    await using file = await open(segment.path, 'r');
    let at = await findBoundary(file, segment, offset);
    for await (const record of walk(file, segment, at)) {
      if (source === undefined || record.source === source) {
        const isFull = records.length >= MAX_RECORDS || textBytes + record.totalBytes > MAX_PAGE_BYTES;
        if (isFull && records.length > 0) return { nextOffset: at, records };
        if (hasMissed)
          records.push(describeMissing(first.start - since, source ?? record.source, record.timeMs));
        hasMissed = false;
        textBytes += record.totalBytes;
        records.push(toLogRecord(record));
      }
      at += record.totalBytes;
    }
    offset = segmentEnd;
  }
  return { nextOffset: offset, records };
}

/** An event in place of the dropped oldest records. */
function describeMissing(bytes: number, source: LogSource, timeMs: number): LogRecord {
  const text = `the oldest ${bytes} bytes of this log were dropped: it had reached its limit`;
  return { source, stream: 'event', timeMs, text };
}

/** The end of the log: complete records of at most 64 KiB in total, or the last one. */
async function readTail(segments: readonly Segment[], source: LogSource | undefined): Promise<LogPage> {
  const newestFirst: LogRecord[] = [];
  const last = segments.at(-1);
  const nextOffset = last === undefined ? 0 : last.start + last.sizeBytes;
  let textBytes = 0;
  for (const segment of segments.toReversed()) {
    await using file = await open(segment.path, 'r');
    for await (const record of walkBack(file, segment)) {
      if (source !== undefined && record.source !== source) continue;
      textBytes += record.totalBytes;
      if (newestFirst.length > 0 && (textBytes > TAIL_BYTES || newestFirst.length >= MAX_RECORDS)) {
        return { nextOffset, records: newestFirst.reverse() };
      }
      newestFirst.push(toLogRecord(record));
    }
  }
  return { nextOffset, records: newestFirst.reverse() };
}

/** Records of `segment` from the log offset `from`, which must be a record boundary. */
async function* walk(file: FileHandle, segment: Segment, from: number): AsyncGenerator<DecodedRecord> {
  let at = from - segment.start;
  while (at < segment.sizeBytes) {
    let bytes = await readAt(file, at, Math.min(CHUNK_BYTES, segment.sizeBytes - at));
    const needed = recordLength(bytes, 0) ?? 0;
    if (needed > bytes.length) bytes = await readAt(file, at, needed);
    let used = 0;
    for (;;) {
      const record = decodeRecord(bytes, used, segment.start + at + used);
      if (record === undefined) break;
      used += record.totalBytes;
      yield record;
    }
    // No valid record: the file is damaged from here to its end.
    if (used === 0) return;
    at += used;
  }
}

/** Records of `segment`, newest first. */
async function* walkBack(file: FileHandle, segment: Segment): AsyncGenerator<DecodedRecord> {
  let end = segment.sizeBytes;
  while (end > 0) {
    let start = Math.max(0, end - CHUNK_BYTES);
    let bytes = await readAt(file, start, end - start);
    const lastLength = lengthBefore(bytes, bytes.length);
    if (
      lastLength > bytes.length &&
      lastLength <= MAX_TEXT_BYTES + RECORD_OVERHEAD_BYTES &&
      lastLength <= end
    ) {
      start = end - lastLength;
      bytes = await readAt(file, start, lastLength);
    }
    let left = bytes.length;
    for (;;) {
      const at = left - lengthBefore(bytes, left);
      if (at < 0 || at === left) break;
      const record = decodeRecord(bytes, at, segment.start + start + at);
      if (record === undefined) break;
      left = at;
      yield record;
    }
    if (left === bytes.length) return;
    end = start + left;
  }
}

/** The first record boundary at or after `offset`, which usually is a boundary itself. */
async function findBoundary(file: FileHandle, segment: Segment, offset: number): Promise<number> {
  const at = offset - segment.start;
  if (at <= 0) return segment.start;
  let bytes = await readAt(file, at, Math.min(CHUNK_BYTES, segment.sizeBytes - at));
  const needed = recordLength(bytes, 0) ?? 0;
  if (needed > bytes.length) bytes = await readAt(file, at, needed);
  if (decodeRecord(bytes, 0, offset) !== undefined) return offset;
  let boundary = segment.start;
  for await (const record of walk(file, segment, segment.start)) {
    if (boundary >= offset) break;
    boundary += record.totalBytes;
  }
  return boundary;
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
  return buffer.subarray(0, bytesRead);
}

function toLogRecord({ source, stream, timeMs, text }: DecodedRecord): LogRecord {
  return { source, stream, timeMs, text };
}
