// An answer that comes before its request has ended: the rest is taken and thrown away for a while, because a connection
// that is closed with bytes unread is reset, and a reset can overtake the answer.
import type { IncomingMessage, ServerResponse } from 'node:http';

/** For clients that read no answer before they have sent everything; others leave at the answer. */
export const LINGER_MS = 30_000;
/** A client that sends nothing for so long has seen its answer, or never will. */
const IDLE_MS = 5000;

export function lingerAfter(request: IncomingMessage, response: ServerResponse, lingerMs: number): void {
  response.once('finish', () => {
    if (request.complete || request.destroyed) return;
    const { socket } = request;
    const end = (): void => {
      if (!request.complete) socket.destroy();
    };
    const total = setTimeout(end, lingerMs);
    const idle = setTimeout(end, Math.min(lingerMs, IDLE_MS));
    const stop = (): void => {
      clearTimeout(total);
      clearTimeout(idle);
      socket.off('close', stop);
    };
    socket.once('close', stop);
    request.once('end', stop);
    request.on('data', () => idle.refresh());
    request.resume();
  });
}
