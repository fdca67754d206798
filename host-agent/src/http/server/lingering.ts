// An answer that comes before its request has ended: the rest is taken and thrown away for a while, because a
// connection that is closed with bytes unread is reset, and a reset can overtake the answer.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex, Readable } from 'node:stream';

/** For clients that read no answer before they have sent everything; others leave at the answer. */
export const LINGER_MS = 30_000;
/** A client that sends nothing for so long has seen its answer, or never will. */
const IDLE_MS = 5000;

export function lingerAfter(request: IncomingMessage, response: ServerResponse, lingerMs: number): void {
  response.once('finish', () => {
    if (request.complete || request.destroyed) return;
    const stop = linger(request.socket, request, lingerMs);
    request.once('end', stop);
  });
}

/**
 * Ends the connection when nothing comes from `source` for a while, or too much; the returned function leaves it alone.
 */
export function linger(socket: Duplex, source: Readable, lingerMs: number): () => void {
  const end = (): void => void socket.destroy();
  const total = setTimeout(end, lingerMs);
  const idle = setTimeout(end, Math.min(lingerMs, IDLE_MS));
  const stop = (): void => {
    clearTimeout(total);
    clearTimeout(idle);
    socket.off('close', stop);
  };
  socket.once('close', stop);
  source.on('data', () => idle.refresh());
  source.resume();
  return stop;
}
