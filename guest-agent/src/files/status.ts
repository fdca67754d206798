// Interprets the file status that the addon returns.

/** Returned instead of a descriptor for a file that is neither regular nor a directory. */
export const SPECIAL = -4096;

/** Longest tick of a kernel, microseconds (100 Hz). */
const TICK_US = 10_000;
const TYPE_MASK = 0o170000;
const DIRECTORY = 0o040000;
const REGULAR = 0o100000;
const SYMLINK = 0o120000;
const KINDS: ReadonlyMap<number, string> = new Map([
  [0o010000, 'a FIFO'],
  [0o020000, 'a character device'],
  [0o060000, 'a block device'],
  [0o140000, 'a socket'],
]);

/** Filled by openFile and openEntry: mode, size, mtime (s and ns), links, device, inode in two halves, owner, ctime. */
export function newStatus(): Float64Array {
  return new Float64Array(12);
}

export function isDirectory(status: Float64Array): boolean {
  return (modeOf(status) & TYPE_MASK) === DIRECTORY;
}

export function isSymlink(status: Float64Array): boolean {
  return (modeOf(status) & TYPE_MASK) === SYMLINK;
}

/** Kind of a file that can be neither read nor listed. */
export function specialKind(status: Float64Array): string {
  return KINDS.get(modeOf(status) & TYPE_MASK) ?? 'no file';
}

export function modeOf(status: Float64Array): number {
  return status[0] ?? 0;
}

export function sizeOf(status: Float64Array): number {
  return Math.min(status[1] ?? 0, Number.MAX_SAFE_INTEGER);
}

export function mtimeOf(status: Float64Array): number {
  return status[2] ?? 0;
}

export function ownerOf(status: Float64Array): { readonly uid: number; readonly gid: number } {
  return { uid: status[8] ?? 0, gid: status[9] ?? 0 };
}

export function deviceOf(status: Float64Array): number {
  return status[5] ?? 0;
}

/** A key of the inode if several names share it; undefined when it has one name. */
export function linkKey(status: Float64Array): string | undefined {
  return (status[4] ?? 0) < 2 ? undefined : inodeOf(status);
}

export function inodeOf(status: Float64Array): string {
  return `${status[5]}:${status[6]}:${status[7]}`;
}

export function mtimeUsOf(status: Float64Array): number {
  return mtimeOf(status) * 1e6 + Math.floor((status[3] ?? 0) / 1000);
}

function ctimeUsOf(status: Float64Array): number {
  return (status[10] ?? 0) * 1e6 + Math.floor((status[11] ?? 0) / 1000);
}

export function linksOf(status: Float64Array): number {
  return status[4] ?? 0;
}

/**
 * Text that changes with the content and attributes of the file: its inode, size and the kernel's stamps of its last
 * changes. A program can set back the modification time, but not the time of the change (ctime).
 */
export function versionOf(status: Float64Array): string {
  return [6, 7, 1, 2, 3, 10, 11].map((at) => (status[at] ?? 0).toString(36)).join('.');
}

export function isRegular(status: Float64Array): boolean {
  return (modeOf(status) & TYPE_MASK) === REGULAR;
}

/**
 * Microseconds until a further change would get another time stamp: the kernel's stamps have the resolution of its
 * tick. 0: already.
 */
export function freshUs(status: Float64Array, nowUs: number): number {
  const aheadUs = ctimeUsOf(status) - nowUs;
  // A stamp further ahead is of a time before the clock was set back.
  return aheadUs >= 0 && aheadUs < TICK_US ? Math.max(1000, aheadUs) : 0;
}
