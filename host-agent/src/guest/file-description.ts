// Descriptions of files from a guest: every text is bounded, and every number is one that JSON has.
import { MAX_PATH_BYTES } from '@sandboxd/api';
import type { FileEntry } from '@sandboxd/proto';
import { toWords } from './agent-errors.ts';
import { count } from './outcome.ts';

const TYPE_MASK = 0o170000;
/** By the type in st_mode. */
const FILE_TYPES: ReadonlyMap<number, FileType> = new Map([
  [0o100000, 'file'],
  [0o040000, 'directory'],
  [0o120000, 'symlink'],
  [0o010000, 'fifo'],
  [0o140000, 'socket'],
  [0o020000, 'character-device'],
  [0o060000, 'block-device'],
]);
const MAX_NAME_CHARS = 256;
const MAX_VERSION_CHARS = 120;
/** Years after 9999 have no ISO form of the usual length. */
const MAX_DATE_MS = Date.UTC(9999, 11, 31);

export type FileType =
  | 'file'
  | 'directory'
  | 'symlink'
  | 'fifo'
  | 'socket'
  | 'character-device'
  | 'block-device';

/** Texts of a guest are bounded; numbers are counts. */
export type FileDescription = {
  /** In a list: relative to the listed directory. */
  readonly path: Buffer;
  readonly type: FileType;
  /** Permissions. */
  readonly mode: number;
  readonly sizeBytes: number;
  readonly modifiedAtMs: number;
  readonly uid: number;
  readonly gid: number;
  readonly user?: string;
  readonly group?: string;
  /** Of a symbolic link. */
  readonly target?: Buffer;
  readonly links: number;
  /** Changes with the content and the attributes. */
  readonly version: string;
};

export function toDescription(entry: FileEntry): FileDescription {
  const mode = count(entry.mode);
  return {
    path: toBytes(entry.path),
    type: FILE_TYPES.get(mode & TYPE_MASK) ?? 'file',
    mode: mode & ~TYPE_MASK & 0o7777,
    sizeBytes: count(entry.sizeBytes),
    modifiedAtMs: toTime(entry.mtimeUs),
    uid: count(entry.uid),
    gid: count(entry.gid),
    ...(entry.user !== '' && { user: toWords(entry.user, MAX_NAME_CHARS) }),
    ...(entry.group !== '' && { group: toWords(entry.group, MAX_NAME_CHARS) }),
    ...(entry.target.length > 0 && { target: toBytes(entry.target) }),
    links: count(entry.links),
    version: entry.version.replace(/[^a-z0-9.-]/g, '').slice(0, MAX_VERSION_CHARS),
  };
}

/** Cuts bytes from a guest to the length of a path. A copy: they are part of a larger message. */
function toBytes(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.subarray(0, MAX_PATH_BYTES));
}

/** Clamps microseconds from a guest to a time that a Date has. */
function toTime(us: number): number {
  return Number.isFinite(us) ? Math.min(Math.max(Math.floor(us / 1000), -MAX_DATE_MS), MAX_DATE_MS) : 0;
}
