// A directory that nobody but this user can enter: what is in it needs no protection of its own.
import { chmod, mkdir, readdir, stat } from 'node:fs/promises';
import { AppError, toError } from './errors.ts';
import { LOCK_NAME } from './instance-lock.ts';

/** What makes a directory recognizable as one of a daemon. */
const MARKS = [LOCK_NAME, 'state.lmdb', 'kernels'];
const OTHERS = 0o077;
const WRITABLE_BY_OTHERS = 0o022;

/** What a daemon does with a directory that is there. `what` is to follow its name. */
export type Verdict =
  | { readonly kind: 'private' }
  | { readonly kind: 'closed' | 'refused'; readonly what: string };

/**
 * Makes the directory, or closes it to others when it is ours or empty; the sentence that is returned says so. AppError
 * conflict when it is anything else that others can enter, or somebody else's.
 */
export async function ensurePrivateDirectory(path: string): Promise<string | undefined> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    const verdict = await judgeDirectory(path, process.geteuid?.() ?? 0);
    if (verdict.kind === 'private') return undefined;
    if (verdict.kind === 'refused')
      throw new AppError(
        'conflict',
        `directory ${path} ${verdict.what}; choose one that is the daemon's own, or chown and chmod 700 this one if it is`,
      );
    await chmod(path, 0o700);
    return `directory ${path} ${verdict.what}; it has 0700 now`;
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw new AppError('internal', `cannot make directory ${path}: ${toError(cause).message}`, { cause });
  }
}

/** Of a daemon that runs as that user. Fails when there is nothing, or nothing that can be looked at. */
export async function judgeDirectory(path: string, user: number): Promise<Verdict> {
  const found = await stat(path);
  if (!found.isDirectory()) return { kind: 'refused', what: 'is no directory' };
  const { uid, mode } = found;
  if (uid !== user) return { kind: 'refused', what: `belongs to user ${uid}, who can change what is in it` };
  if ((mode & OTHERS) === 0) return { kind: 'private' };
  const octal = (mode & 0o7777).toString(8).padStart(4, '0');
  const names = await readdir(path);
  // What others could write into may hold anything by now.
  const isOurs = (mode & WRITABLE_BY_OTHERS) === 0 && names.some((name) => MARKS.includes(name));
  return names.length > 0 && !isOurs
    ? { kind: 'refused', what: `has mode ${octal}, so that others can enter it` }
    : { kind: 'closed', what: `had mode ${octal}, so that others could enter it` };
}
