// The ways that an outflow's bytes travel to a client: written straight to its connection, or as a web stream.
import type { Writable } from 'node:stream';
import type { Outflow } from '../lib/byte-queue.ts';
import type { HttpContext } from './context.ts';

/**
 * The answer 200 whose body it is. Our own server sends it by itself: a web stream costs several promises for every chunk, and
 * memory of its own.
 */
export function answerOutflow(c: HttpContext, outflow: Outflow, headers: Record<string, string>): Response {
  const env: HttpContext['env'] | undefined = c.env;
  if (env?.direct === undefined) return c.body(toWebStream(outflow), 200, headers);
  env.direct.outflow = outflow;
  return c.body(null, 200, headers);
}

function toWebStream(outflow: Outflow): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const piece = await outflow.next();
        if (piece === undefined) return controller.close();
        controller.enqueue(new Uint8Array(piece.bytes));
        piece.release();
      },
      cancel: () => outflow.cancel(),
    },
    { highWaterMark: 0 },
  );
}

const written = new WeakMap<Writable, Outflow>();

/** Sends something without meaning, if that is possible where the answer is. */
export function poke(target: Writable): void {
  written.get(target)?.poke?.();
}

/** Writes everything; resolves when the last byte was handed on, or the connection is gone (then it is cancelled). */
export async function writeOutflow(target: Writable, outflow: Outflow): Promise<void> {
  if (target.destroyed) return outflow.cancel();
  const onClose = () => outflow.cancel();
  target.once('close', onClose);
  written.set(target, outflow);
  try {
    for (;;) {
      const piece = await outflow.next();
      if (piece === undefined) return;
      if (target.destroyed) {
        piece.release();
        outflow.cancel();
        return;
      }
      // The end often follows at once, and then goes with it.
      target.cork();
      process.nextTick(() => target.uncork());
      if (!target.write(piece.bytes, piece.release)) await drained(target);
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
