// Exec over a connection that was taken from HTTP: a fixed reply, then frames in both directions until its end.
import type { Duplex } from 'node:stream';
import { writePullStream } from '../pull-stream.ts';
import { linger } from '../server/lingering.ts';
import type { ExecRun } from './exec-run.ts';

const REPLY = 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n';

/** Feeds the client's bytes to the run from now on, which may be before the reply is due. */
export function feedFromSocket(socket: Duplex, head: Buffer, run: ExecRun): void {
  const onBytes = (bytes: Buffer) => {
    if (!run.push(bytes)) socket.pause();
  };
  socket.on('data', onBytes);
  socket.resume();
  if (head.length > 0) onBytes(head);
  // A client that no longer sends has left, as far as an interactive command can know.
  socket.on('end', () => run.kill());
  socket.on('error', () => run.cancel());
  socket.on('close', () => run.cancel());
}

/** Sends the reply and every frame at the client's pace, then closes, at the latest `lingerMs` after the last byte. */
export async function sendToSocket(socket: Duplex, run: ExecRun, lingerMs: number): Promise<void> {
  socket.write(REPLY);
  await writePullStream(socket, run);
  if (socket.destroyed) return;
  socket.end(() => linger(socket, socket, lingerMs));
}
