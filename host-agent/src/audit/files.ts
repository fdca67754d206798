// The files of the trail, each named by the number of its first line, and the end of the last one.
import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf } from '../lib/errors.ts';
import type { Table } from '../store/store.ts';
import { type Link, type ReadLine, readLine } from './line.ts';

/** Subdirectory of the data directory. */
export const AUDIT_DIR = 'audit';

const NAME = /^audit-(\d{16})\.jsonl$/;
/** Maximum length of a line. */
const MAX_LINE_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

export type TrailFile = { readonly path: string; readonly firstSeq: number };

export function trailPath(dir: string, firstSeq: number): string {
  return join(dir, `audit-${String(firstSeq).padStart(16, '0')}.jsonl`);
}

/** Oldest first; empty if there is no trail. */
export function listFiles(dir: string): TrailFile[] {
  try {
    return readdirSync(dir)
      .flatMap((name) => {
        const firstSeq = NAME.exec(name)?.[1];
        return firstSeq === undefined ? [] : [{ path: join(dir, name), firstSeq: Number(firstSeq) }];
      })
      .sort((a, b) => a.firstSeq - b.firstSeq);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

export type FileEnd = {
  /** The last complete line; undefined if there is none, or it was modified. */
  readonly last: ReadLine | undefined;
  /** Total size of the complete lines. */
  readonly wholeBytes: number;
  /** Bytes of an incomplete line after them. */
  readonly tornBytes: number;
};

export function readEnd(path: string): FileEnd {
  const fd = openSync(path, 'r');
  try {
    const { size } = fstatSync(fd);
    const bytes = Buffer.alloc(Math.min(size, 2 * MAX_LINE_BYTES));
    readSync(fd, bytes, 0, bytes.length, size - bytes.length);
    const end = bytes.lastIndexOf(NEWLINE);
    const begin = end <= 0 ? 0 : bytes.lastIndexOf(NEWLINE, end - 1) + 1;
    const last = end === -1 ? undefined : readLine(bytes.toString('utf8', begin, end));
    return { last, wholeBytes: size - bytes.length + end + 1, tornBytes: bytes.length - end - 1 };
  } finally {
    closeSync(fd);
  }
}

// Anchors of the trail in the registry. Without them, a trail whose beginning or end was cut off would verify as
// complete.
/** `end` is a recent last line, `begin` the line before the first that must still exist. */
export type Anchors = Pick<Table<Link>, 'latest' | 'put'>;
export const ANCHOR_TABLE = 'audit';
export const END = 'end';
export const BEGIN = 'begin';
