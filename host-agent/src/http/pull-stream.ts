// Sends a pull stream to a client: directly to the connection, or as a web stream.
import type { Writable } from 'node:stream';
import type { PullStream } from '../lib/byte-queue.ts';
import type { HttpContext } from './context.ts';

/**
 * A response with the stream as body. The server writes the stream directly to the connection, because a
 * web stream costs several promises and extra memory for each chunk.
 */
export function answerPullStream(
  c: HttpContext,
  stream: PullStream,
  headers: Record<string, string>,
  status: 200 | 206 = 200,
): Response {
  const env: HttpContext['env'] | undefined = c.env;
  if (env?.direct === undefined) return c.body(toWebStream(stream), status, headers);
  env.direct.stream = stream;
  return c.body(null, status, headers);
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

const streams = new WeakMap<Writable, PullStream>();

/** Sends a keepalive in the response, if its stream supports that. */
export function sendKeepalive(target: Writable): void {
  streams.get(target)?.keepalive?.();
}

/** Writes the whole stream. Resolves after the last write, or when the connection closes (then cancels the stream). */
export async function writePullStream(target: Writable, stream: PullStream): Promise<void> {
  if (target.destroyed) return stream.cancel();
  const onClose = () => stream.cancel();
  target.once('close', onClose);
  streams.set(target, stream);
  try {
    for (;;) {
      const chunk = await stream.next();
      if (chunk === undefined) return;
      if (target.destroyed) {
        chunk.release();
        stream.cancel();
        return;
      }
      // The end often follows immediately; cork sends both in one packet.
      target.cork();
      process.nextTick(() => target.uncork());
      if (!target.write(chunk.bytes, chunk.release)) await drained(target);
    }
  } finally {
    target.off('close', onClose);
    streams.delete(target);
  }
}

/** Waits for `drain` or `close`. Does not use events.once with a signal, because an AbortError costs a stack trace. */
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
