// File errors for the client: the file name and the kernel's error as text.
import { constants } from 'node:os';
import { AgentError, type AgentErrorCode, showName } from '@sandboxd/proto';
import { errorCode } from '../lib/error-code.ts';

type Meaning = readonly [AgentErrorCode, string];

const { errno } = constants;

const MEANINGS: ReadonlyMap<number, Meaning> = new Map([
  [errno.ENOENT, ['not_found', 'does not exist']],
  [errno.ENOTDIR, ['not_directory', 'goes through something that is not a directory']],
  [errno.EISDIR, ['is_directory', 'is a directory']],
  [errno.EACCES, ['permission_denied', 'may not be accessed (permission denied)']],
  [errno.EPERM, ['permission_denied', 'may not be accessed (operation not permitted)']],
  [errno.EROFS, ['read_only', 'is on a read-only file system']],
  [errno.ENOSPC, ['no_space', "cannot be written: the guest's disk is full"]],
  [errno.EDQUOT, ['no_space', "cannot be written: the guest's disk quota is used up"]],
  [errno.EFBIG, ['no_space', "is larger than the guest's file system allows"]],
  [errno.EXDEV, ['invalid', 'leads out of the destination']],
  [errno.ELOOP, ['invalid', 'goes through too many symbolic links, or through one that is not allowed']],
  [errno.ENAMETOOLONG, ['invalid', 'is too long a name for Linux']],
  [errno.EEXIST, ['conflict', 'is in the way']],
  [errno.ENOTEMPTY, ['conflict', 'is a directory with entries']],
  [errno.EBUSY, ['conflict', 'is in use (a mount point)']],
  [errno.EMLINK, ['invalid', 'has too many links']],
  [errno.EINVAL, ['invalid', 'is refused by its file system']],
  [errno.EIO, ['invalid', 'cannot be read or written (input/output error)']],
]);

/** `result` is -errno. `name` is a byte string. `prefix` precedes the name in the message. */
export function fileError(result: number, name: string, prefix = ''): AgentError {
  const [code, text] =
    MEANINGS.get(-result) ?? (['invalid', `cannot be used (${errorName(-result)})`] as const);
  return new AgentError(code, `${prefix}${showName(name)} ${text}`);
}

/** Converts what the addon's `read` threw. */
export function readError(error: unknown, name: string): AgentError {
  const number = Object.entries(errno).find(([code]) => code === errorCode(error))?.[1];
  return fileError(-(number ?? errno.EIO), name);
}

function errorName(number: number): string {
  return Object.entries(errno).find(([, value]) => value === number)?.[0] ?? `error ${number}`;
}
