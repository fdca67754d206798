// Kernel locks (flock) of files and directories. They end with the process that has them, and processes in other
// containers see them.
import { spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { BuilderError } from '../errors.ts';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const FLOCK = '/usr/bin/flock';
/** Exit code of flock(1) if another process has the lock. */
const HELD = 75;

/** Locked until disposed. Undefined: it is locked already, also by this process. Rejects if it does not exist. */
export async function tryLock(path: string): Promise<Disposable | undefined> {
  const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    if (await lock(fd, path)) return { [Symbol.dispose]: () => closeSync(fd) };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  closeSync(fd);
  return undefined;
}

/** The lock belongs to the open file description, which this process keeps after flock(1) has exited. */
function lock(fd: number, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const child = spawn(FLOCK, ['--nonblock', '--conflict-exit-code', String(HELD), '3'], {
      stdio: ['ignore', 'ignore', 'ignore', fd],
    });
    const fail = (reason: string): void =>
      reject(new BuilderError('command_failed', `cannot lock ${path}: ${reason}`));
    child.on('error', ({ message }) => fail(`${message}; ${FLOCK} is of the package util-linux`));
    child.on('exit', (code, signal) => {
      if (code === 0 || code === HELD) resolve(code === 0);
      else fail(`flock ended with ${code ?? signal}`);
    });
  });
}
