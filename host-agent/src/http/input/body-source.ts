// A request's body as bytes in turn, of any length: only a client that falls silent is given up.
import type { ByteSource } from '../../guest/files.ts';
import { AppError } from '../../lib/errors.ts';
import type { HttpContext } from '../context.ts';
import { HttpError } from '../errors.ts';

const DEFAULT_IDLE_MS = 30_000;

/** The time counts only while bytes are waited for, so that a slow guest is not taken for a slow client. */
export function readBody(c: HttpContext, idleMs = DEFAULT_IDLE_MS): ByteSource {
  const reader = c.req.raw.body?.getReader();
  return async () => {
    if (reader === undefined) return undefined;
    let timer: NodeJS.Timeout | undefined;
    const idle = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new HttpError('timeout', `the body stopped for ${idleMs} ms; send it without pauses`));
      }, idleMs);
    });
    try {
      const { done, value } = await Promise.race([reader.read(), idle]);
      return done ? undefined : value;
    } catch (error) {
      if (error instanceof HttpError) throw error;
      throw new AppError('cancelled', 'the client left within its upload', { cause: error });
    } finally {
      clearTimeout(timer);
    }
  };
}
