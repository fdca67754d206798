// Descriptions of files from a guest: every text is bounded, and every number is one that JSON has.
import { isUtf8 } from 'node:buffer';
import { MAX_PATH_BYTES } from '@sandboxd/api';
import {
  FILE_ATTRIBUTES,
  type FileCallInput,
  type FileEntry,
  MAX_FILE_ATTRIBUTES,
  MAX_LISTED_ATTRIBUTES,
  ProtocolViolation,
} from '@sandboxd/proto';
import { count, toWords } from './agent-errors.ts';

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
const NO_NAMES: ReadonlySet<string> = new Set(['', '.', '..']);
const NO_ATTRIBUTES: ReadonlyMap<string, string> = new Map();
const MAX_NAME_CHARS = 256;
const MAX_VERSION_CHARS = 120;
/** The years 0 to 9999: others have no form in RFC 3339. */
const MIN_DATE_MS = -62_167_219_200_000;
const MAX_DATE_MS = Date.UTC(9999, 11, 31);

export type FileType =
  | 'file'
  | 'directory'
  | 'symlink'
  | 'fifo'
  | 'socket'
  | 'character-device'
  | 'block-device';

export type ListOptions = NonNullable<FileCallInput['list']>;

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
  /** Extended attributes: names and values that are text. */
  readonly attributes?: ReadonlyMap<string, string>;
};

/**
 * Takes at most `maxAttributes` extended attributes: 0 where none were asked for. ProtocolViolation for more, and for
 * those that cannot be decoded.
 */
export function toDescription(entry: FileEntry, maxAttributes = 0): FileDescription {
  const mode = count(entry.mode);
  const attributes = maxAttributes === 0 ? NO_ATTRIBUTES : toAttributes(entry.attributes, maxAttributes);
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
    ...(attributes.size > 0 && { attributes }),
  };
}

function toAttributes(bytes: Uint8Array, max: number): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const { name, value = new Uint8Array() } of FILE_ATTRIBUTES.decode(
    bytes,
    Math.min(max, MAX_FILE_ATTRIBUTES),
  ))
    if (name.length > 0 && isUtf8(name) && value !== null && isUtf8(value))
      found.set(Buffer.from(name).toString(), Buffer.from(value).toString());
  return found;
}

/**
 * The entries of a list. Programs join their paths to directories of their own, and ask for the next page behind the
 * last one. ProtocolViolation for a path that leads elsewhere or is deeper than was asked for, and for a list that does
 * not go forward.
 */
export function toDescriptions(
  entries: readonly FileEntry[],
  { depth, after, attributes: hasAttributes }: ListOptions,
): FileDescription[] {
  let last = toOrder(after ?? new Uint8Array());
  let attributes = 0;
  return entries.map((entry) => {
    const order = toOrder(entry.path);
    const parts = order.split('\0');
    if (
      entry.path.length > MAX_PATH_BYTES ||
      entry.path.includes(0) ||
      parts.some((part) => NO_NAMES.has(part))
    )
      throw new ProtocolViolation('a file in a list has a path that cannot be');
    if (parts.length > (depth ?? 1)) throw new ProtocolViolation('a file in a list is too deep');
    if (order <= last) throw new ProtocolViolation('a list of files goes back');
    last = order;
    const description = toDescription(entry, hasAttributes ? MAX_LISTED_ATTRIBUTES - attributes : 0);
    attributes += description.attributes?.size ?? 0;
    return description;
  });
}

/** A text that has the order of lists: by the bytes of each part of the path. */
function toOrder(path: Uint8Array): string {
  return Buffer.from(path).toString('latin1').replaceAll('/', '\0');
}

/** Cuts bytes from a guest to the length of a path. A copy: they are part of a larger message. */
function toBytes(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.subarray(0, MAX_PATH_BYTES));
}

/** Clamps microseconds from a guest to a time that a Date has. */
function toTime(us: number): number {
  return Number.isFinite(us) ? Math.min(Math.max(Math.floor(us / 1000), MIN_DATE_MS), MAX_DATE_MS) : 0;
}
