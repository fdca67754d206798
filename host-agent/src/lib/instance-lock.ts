// One daemon per directory: the lock is a socket name of Linux's abstract kind, which ends with its process, so that
// a crash leaves nothing to clean up.
import { createHash } from 'node:crypto';
import { mkdir, realpath } from 'node:fs/promises';
import { createServer } from 'node:net';
import { AppError, errnoOf } from './errors.ts';

/** Makes the directory and holds it until disposed. AppError conflict when another daemon does. */
export async function lockDirectory(path: string): Promise<AsyncDisposable> {
  await mkdir(path, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new AppError('internal', `cannot make directory ${path}: ${errnoOf(cause) ?? cause}`, { cause });
  });
  const digest = createHash('sha256')
    .update(await realpath(path))
    .digest('hex');
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      const isHeld = errnoOf(cause) === 'EADDRINUSE';
      const message = isHeld
        ? `directory ${path} is in use by another sandboxd; stop that one or choose another directory`
        : `cannot lock directory ${path}: ${cause.message}`;
      reject(new AppError(isHeld ? 'conflict' : 'internal', message, { cause }));
    });
    server.listen(`\0sandboxd-${digest.slice(0, 32)}`, resolve);
  });
  server.unref();
  return { [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())) };
}
