// The files of one log: each begins where the previous one ends, and is named by that offset. Also repairs the last
// one.
import { open, readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../lib/errors.ts';
import { type CapturePosition, decodeRecord } from './record.ts';

export type Segment = {
  readonly path: string;
  /** Log offset of its first byte. */
  readonly start: number;
  readonly sizeBytes: number;
};

const NAME = /^(\d{16})\.log$/;
/** Marks the log of a deleted sandbox; its age counts for the retention. */
export const ENDED_NAME = 'ended';
/** Contains the name of the sandbox's tenant, if any: the log outlives the sandbox. */
export const TENANT_NAME = 'tenant';

export function segmentPath(dir: string, start: number): string {
  return join(dir, `${String(start).padStart(16, '0')}.log`);
}

/** Oldest first; undefined if there is no such log. */
export async function listSegments(dir: string): Promise<Segment[] | undefined> {
  let names: string[];
  try {
    names = await readdir(dir);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  const segments = await Promise.all(
    names.flatMap((name) => {
      const start = NAME.exec(name)?.[1];
      return start === undefined ? [] : [statSegment(join(dir, name), Number(start))];
    }),
  );
  return segments.filter((segment) => segment !== undefined).sort((a, b) => a.start - b.start);
}

/** A rotation may remove a file at any moment. */
async function statSegment(path: string, start: number): Promise<Segment | undefined> {
  try {
    return { path, start, sizeBytes: (await stat(path)).size };
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

type Repaired = {
  readonly segments: readonly Segment[];
  /** Log offset of the next record. */
  readonly end: number;
  /** As of the last record. */
  readonly position: CapturePosition | undefined;
  /** Number of commands whose end is not in the log. */
  readonly runningExecs: number;
  /** Bytes of an incomplete record that were cut off. */
  readonly tornBytes: number;
};

/** Cuts off a record that a crash left incomplete. The log must not be open for writing. */
export async function repairLog(dir: string): Promise<Repaired> {
  const segments = [...((await listSegments(dir)) ?? [])];
  const last = segments.pop();
  if (last === undefined) return { segments: [], end: 0, position: undefined, runningExecs: 0, tornBytes: 0 };
  const { goodBytes, position, runningExecs } = await findEnd(last);
  const tornBytes = last.sizeBytes - goodBytes;
  if (tornBytes > 0) await truncate(last.path, goodBytes);
  const end = last.start + goodBytes;
  const repaired = [...segments, { ...last, sizeBytes: goodBytes }];
  return { segments: repaired, end, position, runningExecs, tornBytes };
}

type SegmentEnd = Pick<Repaired, 'position' | 'runningExecs'> & { readonly goodBytes: number };

async function findEnd(segment: Segment): Promise<SegmentEnd> {
  await using file = await open(segment.path, 'r');
  // A segment is an eighth of a log's limit: small enough to be read at once, after a crash only.
  const bytes = await file.readFile();
  let goodBytes = 0;
  let position: CapturePosition | undefined;
  let runningExecs = 0;
  for (;;) {
    const record = decodeRecord(bytes, goodBytes, segment.start + goodBytes);
    if (record === undefined) return { goodBytes, position, runningExecs };
    goodBytes += record.totalBytes;
    position = record.position ?? position;
    runningExecs = record.runningExecs;
  }
}
