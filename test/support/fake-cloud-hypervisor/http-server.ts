// The VMM's HTTP server with its peculiarities: no chunked bodies, no half-closed connections, ten connections, a body
// limit, one request at a time.
import { createServer, type Server, type Socket } from 'node:net';

const MAX_CONNECTIONS = 10;
const MAX_BODY_BYTES = 51_200;
const MAX_HEADER_LINE_BYTES = 1024;

export type FakeRequest = { readonly method: string; readonly path: string; readonly body: string };
export type FakeAnswer =
  | {
      readonly status: number;
      readonly body?: string;
      readonly isJson?: boolean;
      readonly afterwards?: () => void;
    }
  /** Closes the connection. */
  | 'drop';

export type Handler = (request: FakeRequest) => Promise<FakeAnswer>;

export function serveHttp(handle: Handler): Server {
  let isBusy = false;
  const waiting: (() => void)[] = [];
  const inTurn = async (request: FakeRequest): Promise<FakeAnswer> => {
    if (isBusy) await new Promise<void>((resolve) => waiting.push(resolve));
    isBusy = true;
    try {
      return await handle(request);
    } finally {
      isBusy = waiting.length > 0;
      waiting.shift()?.();
    }
  };
  const sockets = new Set<Socket>();
  return createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined);
    if (sockets.size >= MAX_CONNECTIONS) {
      socket.end(
        'HTTP/1.1 503\r\nServer: Cloud Hypervisor API\r\nConnection: close\r\nContent-Length: 40\r\n\r\n{ "error": "Too many open connections" }',
      );
      return;
    }
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serveConnection(socket, inTurn);
  });
}

function serveConnection(socket: Socket, handle: Handler): void {
  let buffer: Buffer = Buffer.alloc(0);
  let isHalfClosed = false;
  let queue = Promise.resolve();
  // The response is dropped when the client has shut down its side.
  socket.on('end', () => {
    isHalfClosed = true;
    socket.destroy();
  });
  const refuse = (why: string): void => {
    buffer = Buffer.alloc(0);
    const body = `{ "error": "${why}\nAll previous unanswered requests will be dropped." }`;
    queue = queue.then(() => write(socket, { status: 400, body, isJson: true }));
  };
  socket.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk]);
    for (;;) {
      const end = buffer.indexOf('\r\n\r\n');
      if (end < 0) {
        if (
          buffer.length > 0 &&
          !/^(GET|PUT|POST|PATCH|DELETE|HEAD|OPTIONS|[A-Z]{1,7}$)/.test(buffer.toString('latin1', 0, 8))
        )
          refuse('Invalid Request.');
        return;
      }
      const lines = buffer.toString('latin1', 0, end).split('\r\n');
      const [method = '', path = ''] = (lines[0] ?? '').split(' ');
      if (lines.some((line) => line.length > MAX_HEADER_LINE_BYTES) || !path.startsWith('/'))
        return refuse('Invalid Request.');
      const length = Number(/^content-length: *(\d+)$/im.exec(lines.slice(1).join('\n'))?.[1] ?? 0);
      if (length > MAX_BODY_BYTES)
        return refuse(`Payload too large: request body of ${length} bytes, limit is ${MAX_BODY_BYTES}`);
      if (buffer.length < end + 4 + length) return;
      const body = buffer.toString('utf8', end + 4, end + 4 + length);
      buffer = buffer.subarray(end + 4 + length);
      queue = queue.then(async () => {
        // A connection that is half-closed together with its request is dropped with the request.
        for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
        if (isHalfClosed) return;
        const answer = await handle({ method, path, body });
        if (!isHalfClosed) write(socket, answer);
      });
    }
  });
}

function write(socket: Socket, answer: FakeAnswer): void {
  if (answer === 'drop') {
    socket.destroy();
    return;
  }
  const { status, body, isJson = true } = answer;
  const head = [`HTTP/1.1 ${status} `, 'Server: Cloud Hypervisor API', 'Connection: keep-alive'];
  // A response without content also has no length header.
  if (status !== 204) {
    if (isJson && body !== undefined) head.push('Content-Type: application/json');
    head.push(`Content-Length: ${Buffer.byteLength(body ?? '')}`);
  }
  socket.write(`${head.join('\r\n')}\r\n\r\n${body ?? ''}`, () => answer.afterwards?.());
}
