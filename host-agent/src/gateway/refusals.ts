// What the client of HTTP/1 gets where a request is refused, or fails.
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Why a server did not answer, in words. */
export function toReason({ message, ...error }: NodeJS.ErrnoException): string {
  const code = error.code ?? '';
  if (code.startsWith('HPE_')) return 'the answer of the server is not valid HTTP';
  if (code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE')
    return 'the server ended the connection';
  return /^(?:the|its) /.test(message) ? message : 'the server failed';
}

/** What the client gets in place of the server's answer. */
export function toBody(reason: string): string {
  return `sandbox network: ${reason}\n`;
}

export function answer(res: ServerResponse, status: number, reason: string): void {
  const body = toBody(reason);
  // What was not valid may end elsewhere than it seems.
  const isEnd = status === 400 || status === 421;
  // Of a head that could not be sent.
  res.statusMessage = '';
  res.writeHead(status, {
    'Content-Type': 'text/plain',
    'Content-Length': Buffer.byteLength(body),
    ...(isEnd && { Connection: 'close' }),
  });
  res.end(body);
}

/** Writes an answer where no request is known, and ends the connection. */
export function endWith(socket: Duplex, status: number, reason: string): void {
  const body = toBody(reason);
  socket.on('error', () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
      `Connection: close\r\n\r\n${body}`,
  );
}
