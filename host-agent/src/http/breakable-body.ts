// A streamed body that may fail in its middle: the connection ends then, so that nobody takes the part for the whole, and
// the daemon's log says why.
import { AppError } from '../lib/errors.ts';
import type { HttpContext } from './context.ts';

/** Without a connection, as in an app that runs without a socket, the failure is the stream's own. */
export function breakableBody(c: HttpContext, body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const { log } = c.var;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { value, done } = await reader.read();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          if (error instanceof AppError) log.warn({ reason: error.message }, 'an answer broke off');
          else log.error({ err: error }, 'an answer broke off');
          const socket = c.env?.incoming?.socket;
          if (socket === undefined) controller.error(error);
          else {
            socket.destroy();
            controller.close();
          }
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
