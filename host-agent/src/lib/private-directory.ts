// A directory that nobody but this user can enter: what is in it needs no protection of its own.
import { chmod, mkdir, readdir, stat } from 'node:fs/promises';
import { AppError, toError } from './errors.ts';
import { LOCK_NAME } from './instance-lock.ts';

/** What makes a directory recognizable as one of a daemon. */
const MARKS = [LOCK_NAME, 'state.lmdb', 'kernels'];
const OTHERS = 0o077;
const WRITABLE_BY_OTHERS = 0o022;

/**
 * Makes the directory, or closes it to others when it is ours or empty; the sentence that is returned says so. AppError
 * conflict when it is anything else that others can enter, or somebody else's.
 */
export async function ensurePrivateDirectory(path: string): Promise<string | undefined> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    const { uid, mode } = await stat(path);
    if (uid !== process.geteuid?.())
      throw unsafe(path, `belongs to user ${uid}, who can change what is in it`);
    if ((mode & OTHERS) === 0) return undefined;
    const octal = (mode & 0o7777).toString(8).padStart(4, '0');
    const names = await readdir(path);
    // What others could write into may hold anything by now.
    const isOurs = (mode & WRITABLE_BY_OTHERS) === 0 && names.some((name) => MARKS.includes(name));
    if (names.length > 0 && !isOurs) throw unsafe(path, `has mode ${octal}, so that others can enter it`);
    await chmod(path, 0o700);
    return `directory ${path} had mode ${octal}, so that others could enter it; it has 0700 now`;
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw new AppError('internal', `cannot make directory ${path}: ${toError(cause).message}`, { cause });
  }
}

function unsafe(path: string, what: string): AppError {
  return new AppError(
    'conflict',
    `directory ${path} ${what}; choose one that is the daemon's own, or chown and chmod 700 this one if it is`,
  );
}
