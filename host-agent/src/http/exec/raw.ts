// Exec over a hijacked connection: a fixed response head, then frames in both directions.
import type { Duplex } from 'node:stream';
import { writePullStream } from '../pull-stream.ts';
import { linger } from '../server/responses.ts';
import type { ExecRun } from './exec-run.ts';

const RESPONSE_HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n';

/**
 * Forwards the client's bytes to the run from now on, even before the response head is sent. `onEnd` is called at the
 * end of the client's input.
 */
export function feedFromSocket(
  socket: Duplex,
  head: Buffer,
  run: ExecRun,
  onEnd: () => void = () => run.kill(),
): void {
  const onBytes = (bytes: Buffer) => {
    if (!run.push(bytes)) socket.pause();
  };
  socket.on('data', onBytes);
  socket.resume();
  if (head.length > 0) onBytes(head);
  // For an interactive command, the end of the client's input counts as a disconnect.
  socket.on('end', onEnd);
  socket.on('error', () => run.cancel());
  socket.on('close', () => run.cancel());
}

/** Sends the response head and all frames with backpressure, then closes, at most `lingerMs` after the last byte. */
export async function sendToSocket(socket: Duplex, run: ExecRun, lingerMs: number): Promise<void> {
  socket.write(RESPONSE_HEAD);
  await writePullStream(socket, run);
  if (socket.destroyed) return;
  socket.end(() => linger(socket, socket, lingerMs));
}
