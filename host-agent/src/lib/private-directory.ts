// A directory that only this user can enter, so its contents need no further protection.
import { chmod, readdir } from 'node:fs/promises';
import { AppError, toError } from './errors.ts';
import { type HeldDirectory, holdDirectory } from './held-path.ts';
import { LOCK_NAME } from './instance-lock.ts';

/** Names that identify a directory as a daemon's. */
const MARKS = [LOCK_NAME, 'state.lmdb', 'kernels', 'profiles'];
const OTHERS = 0o077;
const WRITABLE_BY_OTHERS = 0o022;
const ADVICE =
  "choose one that is the daemon's own, or if this is: chown and chmod 700 it, and let no other user change what is above it";

/** How a daemon treats an existing directory. `what` follows its name in messages. */
type Verdict = { readonly kind: 'private' } | { readonly kind: 'closed' | 'refused'; readonly what: string };

/**
 * Creates the directory, or makes it private if it is ours or empty, and then returns a sentence that says so. AppError
 * conflict if it is any other directory that others can enter, belongs to another user, or could be replaced by others.
 */
export async function ensurePrivateDirectory(path: string): Promise<string | undefined> {
  try {
    await using directory = await holdDirectory(path, { makeMode: 0o700 });
    const verdict = await judge(directory, process.geteuid?.() ?? 0);
    if (verdict.kind === 'private') return undefined;
    if (verdict.kind === 'refused')
      throw new AppError('conflict', `directory ${path} ${verdict.what}; ${ADVICE}`);
    await chmod(directory.path, 0o700);
    return `directory ${path} ${verdict.what}; it has 0700 now`;
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw new AppError('internal', `cannot make directory ${path}: ${toError(cause).message}`, { cause });
  }
}

/** For a daemon that runs as that user. Fails if the directory does not exist or cannot be read. */
export async function judgeDirectory(path: string, user: number): Promise<Verdict> {
  await using directory = await holdDirectory(path);
  return await judge(directory, user);
}

async function judge({ path, stats, wayExposure }: HeldDirectory, user: number): Promise<Verdict> {
  if (wayExposure !== undefined)
    return { kind: 'refused', what: `lies in ${wayExposure}, and so put another in its place` };
  const { uid, mode } = stats;
  if (uid !== user) return { kind: 'refused', what: `belongs to user ${uid}, who can change what is in it` };
  if ((mode & OTHERS) === 0) return { kind: 'private' };
  const octal = (mode & 0o7777).toString(8).padStart(4, '0');
  const names = await readdir(path);
  // A directory that others can write to may contain anything.
  const isOurs = (mode & WRITABLE_BY_OTHERS) === 0 && names.some((name) => MARKS.includes(name));
  return names.length > 0 && !isOurs
    ? { kind: 'refused', what: `has mode ${octal}, so that others can enter it` }
    : { kind: 'closed', what: `had mode ${octal}, so that others could enter it` };
}
