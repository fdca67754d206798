// TOCTOU-safe opening of paths that other users may change: each step of a path is held as a descriptor, so what was
// checked is what is used. Like openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, which Node does not provide.
import { constants, type Stats, statSync } from 'node:fs';
import { type FileHandle, mkdir, open, readlink } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { errnoOf, toError } from './errors.ts';
import { O_PATH } from './untrusted-path.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;
/** The kernel's own limit (MAXSYMLINKS). */
const MAX_LINKS = 40;
const WRITABLE_BY_GROUP = 0o020;
const WRITABLE_BY_ALL = 0o002;
const STICKY = 0o1000;

/** A path for an open descriptor, usable as a directory in longer paths. Valid while the descriptor is open. */
export function pathOf({ fd }: Pick<FileHandle, 'fd'>): string {
  return `/proc/${process.pid}/fd/${fd}`;
}

/**
 * Opens for reading the regular file or directory at `names` beneath a directory, and follows no symbolic link. Other
 * file types (pipes, devices) are never opened. Rejects with the system error, or with the file type found.
 */
export async function openBeneath(root: string, names: readonly string[]): Promise<FileHandle> {
  let held = await open(root, O_PATH | O_DIRECTORY);
  try {
    for (const [at, name] of names.entries()) {
      if (name === '' || name === '.' || name === '..' || name.includes('/'))
        throw new Error(`${JSON.stringify(name)} is not the name of a file`);
      const isLast = at === names.length - 1;
      const next = await open(`${pathOf(held)}/${name}`, O_PATH | O_NOFOLLOW | (isLast ? 0 : O_DIRECTORY));
      await held.close();
      held = next;
    }
    const found = await held.stat();
    if (!found.isFile() && !found.isDirectory()) throw new Error(`${names.at(-1)} is not a file of its own`);
    return await open(pathOf(held), O_RDONLY);
  } finally {
    await held.close();
  }
}

type DirectoryOptions = {
  /** User ids that may change the path, in addition to those that are always trusted. */
  readonly trusted?: readonly number[];
  /** Creates the directory and its missing parents with this mode; without it the directory must exist. */
  readonly makeMode?: number;
};

export type HeldDirectory = AsyncDisposable & {
  /** Refers to exactly this directory until it is disposed. */
  readonly path: string;
  readonly stats: Stats;
  /** Who else could replace the directory, as a phrase; undefined if no one can. */
  readonly wayExposure: string | undefined;
  /** As `wayExposure`, or who else could change its entries. */
  readonly exposure: string | undefined;
};

/**
 * Whether a user already has this process's rights: root, the process's own user, and the user that started it by sudo.
 */
function isTrustedUser(uid: number): boolean {
  const own = process.geteuid?.();
  return uid === 0 || uid === own || (own === 0 && process.env.SUDO_UID === String(uid));
}

/**
 * Holds a directory that the operator named. Rejects with a sentence that names the symbolic link if another user could
 * have placed a link on the path.
 */
export async function holdDirectory(path: string, options: DirectoryOptions = {}): Promise<HeldDirectory> {
  const { trusted = [], makeMode } = options;
  const isTrusted = (uid: number) => isTrustedUser(uid) || trusted.includes(uid);
  let held = await open('/', O_PATH | O_DIRECTORY);
  try {
    let here = '';
    let links = 0;
    let wayExposure: string | undefined;
    const rest = path.split('/').filter((part) => part !== '' && part !== '.');
    for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
      const child = `${pathOf(held)}/${name}`;
      const next = await openStep(child, makeMode);
      try {
        const [parent, found] = [await held.stat(), await next.stat()];
        const isExchangeable =
          canChange(parent, isTrusted) && !(isSticky(parent, isTrusted) && isTrusted(found.uid));
        const where = here || '/';
        if (found.isSymbolicLink()) {
          links += 1;
          if (isExchangeable)
            throw new Error(
              `${here}/${name} is a link in a directory that ${describeWriter(parent)} can change`,
            );
          if (links > MAX_LINKS) throw new Error(`${path} leads through too many links`);
          const target = await readlink(child);
          rest.unshift(...target.split('/').filter((part) => part !== '' && part !== '.'));
          if (!target.startsWith('/')) continue;
          await held.close();
          held = await open('/', O_PATH | O_DIRECTORY);
          here = '';
          continue;
        }
        if (!found.isDirectory()) throw new Error(`${here}/${name} is not a directory`);
        if (isExchangeable) wayExposure ??= `${where}, which ${describeWriter(parent)} can change`;
        here = name === '..' ? here.slice(0, Math.max(0, here.lastIndexOf('/'))) : `${here}/${name}`;
        const left = held;
        held = await open(`${pathOf(next)}/.`, O_PATH | O_DIRECTORY);
        await left.close();
      } finally {
        await next.close();
      }
    }
    const stats = await held.stat();
    const isOpen = canChange(stats, isTrusted) && !isSticky(stats, isTrusted);
    const exposure = isOpen ? `${here || '/'}, which ${describeWriter(stats)} can change` : undefined;
    const kept = held;
    return {
      path: pathOf(kept),
      stats,
      wayExposure,
      exposure: wayExposure ?? exposure,
      [Symbol.asyncDispose]: () => kept.close(),
    };
  } catch (error) {
    await held.close();
    throw error;
  }
}

/**
 * Opens with O_PATH the file or directory at an operator's path, and follows links. Rejects with a sentence if another
 * user could replace it.
 */
export async function holdOwn(path: string, links = 0): Promise<FileHandle> {
  await using directory = await holdDirectory(dirname(path));
  if (directory.exposure !== undefined) throw new Error(`it lies in ${directory.exposure}`);
  const place = `${directory.path}/${basename(path)}`;
  const held = await open(place, O_PATH | O_NOFOLLOW);
  const found = await held.stat();
  if (!found.isSymbolicLink() && isTrustedUser(found.uid)) return held;
  await held.close();
  if (!isTrustedUser(found.uid)) throw new Error(`it is user ${found.uid}'s`);
  if (links === MAX_LINKS) throw new Error('it leads through too many links');
  const target = await readlink(place);
  return holdOwn(target.startsWith('/') ? target : `${dirname(path)}/${target}`, links + 1);
}

/**
 * Who else can replace the file at an operator's path or write to it, as a phrase that follows the path. Undefined if
 * no one can, or the file does not exist.
 */
export async function findExposure(path: string): Promise<string | undefined> {
  try {
    await using file = await holdOwn(path);
    const stats = await file.stat();
    return canChange(stats, isTrustedUser) ? `is a file that ${describeWriter(stats)} can change` : undefined;
  } catch (error) {
    return errnoOf(error) === undefined ? `can be exchanged: ${toError(error).message}` : undefined;
  }
}

async function openStep(path: string, makeMode: number | undefined): Promise<FileHandle> {
  try {
    return await open(path, O_PATH | O_NOFOLLOW);
  } catch (error) {
    if (makeMode === undefined || errnoOf(error) !== 'ENOENT') throw error;
  }
  await mkdir(path, { mode: makeMode }).catch((error) => {
    if (errnoOf(error) !== 'EEXIST') throw error;
  });
  return open(path, O_PATH | O_NOFOLLOW);
}

type IsTrusted = (uid: number) => boolean;

/**
 * Directories on the path to the running program. A user who can change them controls the program anyway, so they add
 * no exposure. One example is a user's own checkout, where root builds and runs the program.
 */
let programPlaces: ReadonlySet<string> | undefined;

function findProgramPlaces(): ReadonlySet<string> {
  const places = new Set<string>();
  for (let at = dirname(process.execPath); ; at = dirname(at)) {
    places.add(placeOf(statSync(at)));
    if (at === '/') return places;
  }
}

function placeOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

/**
 * Whether other users can change the entries of a directory. Root's group, and a private group (same number as the
 * user), have no other members.
 */
function canChange(directory: Stats, isTrusted: IsTrusted): boolean {
  const { uid, gid, mode } = directory;
  programPlaces ??= findProgramPlaces();
  // In a sticky directory such as /tmp, other users have entries, but none that leads to our program.
  if ((mode & STICKY) === 0 && programPlaces.has(placeOf(directory))) return false;
  const isGroupAlone = gid === 0 || gid === uid;
  return (
    !isTrusted(uid) || (mode & (isGroupAlone ? WRITABLE_BY_ALL : WRITABLE_BY_ALL | WRITABLE_BY_GROUP)) !== 0
  );
}

/** In a sticky directory, only the owner of an entry and trusted users can rename or remove it. */
function isSticky({ uid, mode }: Stats, isTrusted: IsTrusted): boolean {
  return isTrusted(uid) && (mode & STICKY) !== 0;
}

function describeWriter({ uid, gid, mode }: Stats): string {
  if ((mode & WRITABLE_BY_ALL) !== 0) return 'every user';
  return (mode & WRITABLE_BY_GROUP) !== 0 ? `group ${gid}` : `user ${uid}`;
}
