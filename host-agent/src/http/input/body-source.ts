// A request's body as bytes in turn, of any length: only a client that falls silent is given up.
import type { ByteSource } from '../../guest/files.ts';
import { AppError } from '../../lib/errors.ts';
import type { HttpContext } from '../context.ts';
import { HttpError } from '../errors.ts';

const DEFAULT_IDLE_MS = 30_000;
/** How long the rest of a refused body is taken, for clients that read no answer before they have sent everything. */
const DRAIN_MS = 5000;

export type BodySource = {
  /** The time limit counts only while bytes are waited for, so that a slow guest is not taken for a slow client. */
  readonly read: ByteSource;
  /** Throws the rest away, for a while. */
  drain(): Promise<void>;
};

export function readBody(c: HttpContext, idleMs = DEFAULT_IDLE_MS): BodySource {
  const reader = c.req.raw.body?.getReader();
  const read: ByteSource = async () => {
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
  const readRest = async (isOver: () => boolean): Promise<void> => {
    while (!isOver() && !(await reader?.read())?.done);
  };
  return {
    read,
    async drain() {
      if (reader === undefined) return;
      let isOver = false;
      let timer: NodeJS.Timeout | undefined;
      const limit = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, DRAIN_MS);
      });
      await Promise.race([readRest(() => isOver).catch(() => {}), limit]);
      isOver = true;
      clearTimeout(timer);
    },
  };
}
