// The ways that an outflow's bytes travel to a client: written straight to its connection, or as a web stream.
import type { Writable } from 'node:stream';
import type { PullStream } from '../lib/byte-queue.ts';
import type { HttpContext } from './context.ts';

/**
 * The answer 200 whose body it is. Our own server sends it by itself: a web stream costs several promises for every chunk, and
 * memory of its own.
 */
export function answerPullStream(
  c: HttpContext,
  stream: PullStream,
  headers: Record<string, string>,
): Response {
  const env: HttpContext['env'] | undefined = c.env;
  if (env?.direct === undefined) return c.body(toWebStream(stream), 200, headers);
  env.direct.outflow = stream;
  return c.body(null, 200, headers);
}

function toWebStream(stream: PullStream): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = await stream.next();
        if (chunk === undefined) return controller.close();
        controller.enqueue(new Uint8Array(chunk.bytes));
        chunk.release();
      },
      cancel: () => stream.cancel(),
    },
    { highWaterMark: 0 },
  );
}

const written = new WeakMap<Writable, PullStream>();

/** Sends something without meaning, if that is possible where the answer is. */
export function sendKeepalive(target: Writable): void {
  written.get(target)?.keepalive?.();
}

/** Writes everything; resolves when the last byte was handed on, or the connection is gone (then it is cancelled). */
export async function writePullStream(target: Writable, stream: PullStream): Promise<void> {
  if (target.destroyed) return stream.cancel();
  const onClose = () => stream.cancel();
  target.once('close', onClose);
  written.set(target, stream);
  try {
    for (;;) {
      const chunk = await stream.next();
      if (chunk === undefined) return;
      if (target.destroyed) {
        chunk.release();
        stream.cancel();
        return;
      }
      // The end often follows at once, and then goes with it.
      target.cork();
      process.nextTick(() => target.uncork());
      if (!target.write(chunk.bytes, chunk.release)) await drained(target);
    }
  } finally {
    target.off('close', onClose);
    written.delete(target);
  }
}

/** Resolves when there is room again or the connection is gone. No signal ends the waiting: an AbortError has a stack trace. */
function drained(target: Writable): Promise<void> {
  if (target.destroyed || !target.writableNeedDrain) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      target.off('drain', done);
      target.off('close', done);
      resolve();
    };
    target.on('drain', done);
    target.on('close', done);
  });
}
