// One daemon per directory: a kernel lock (flock) on a file that other users cannot open. It ends with its process, so
// a crash leaves nothing to clean up, and daemons in other containers see it.
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import { AppError, errnoOf, toError } from './errors.ts';
import { startProgram } from './programs.ts';

export const LOCK_NAME = 'sandboxd.lock';
const { O_CREAT, O_RDWR, O_NOFOLLOW } = constants;
const FLOCK = '/usr/bin/flock';
/** Exit code of flock(1) if another process has the lock. */
const HELD = 75;

/** Locks an existing directory until disposed. AppError conflict if another daemon has the lock. */
export async function lockDirectory(path: string): Promise<AsyncDisposable> {
  let fd: number;
  try {
    fd = openSync(join(path, LOCK_NAME), O_CREAT | O_RDWR | O_NOFOLLOW, 0o600);
  } catch (cause) {
    throw new AppError('internal', `cannot lock directory ${path}: ${errnoOf(cause) ?? cause}`, { cause });
  }
  try {
    await lock(fd, path);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return { [Symbol.asyncDispose]: async () => closeSync(fd) };
}

/** The lock belongs to the open file description, which this process keeps after flock(1) has exited. */
function lock(fd: number, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = startProgram(FLOCK, ['--nonblock', '--conflict-exit-code', String(HELD), '3'], {
      stdio: ['ignore', 'ignore', 'ignore', fd],
    });
    const fail = (reason: string, cause?: Error): void =>
      reject(
        new AppError('internal', `cannot lock directory ${path}: ${reason}`, { ...(cause && { cause }) }),
      );
    child.on('error', (cause) =>
      fail(`${toError(cause).message}; ${FLOCK} is of the package util-linux`, cause),
    );
    child.on('exit', (code, signal) => {
      if (code === 0) resolve();
      else if (code !== HELD) fail(`flock ended with ${code ?? signal}`);
      else {
        const message = `directory ${path} is in use by another sandboxd; stop that one or choose another directory`;
        reject(new AppError('conflict', message));
      }
    });
  });
}
