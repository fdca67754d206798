// The host's socket of the guest's vsock.
import { createServer, type Server, type Socket } from 'node:net';
import { readKnobs, takeFault } from './knobs.ts';
import { apiError, osError } from './refusal.ts';

const MAX_LINE_BYTES = 32;
const MAX_CONNECTIONS = 1023;
const AGENT_PORT = 1024;
const FIRST_HOST_PORT = 2 ** 30;

type VsockOptions = {
  readonly path: string;
  /** Whether the guest's driver is up. Earlier connections are never answered. */
  readonly isUp: () => boolean;
  readonly accept: (socket: Socket) => void;
};

export class FakeVsock {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #nextPort = FIRST_HOST_PORT;

  private constructor(options: VsockOptions) {
    // A connection may be half-closed.
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#serve(socket, options));
  }

  /** Rejects when the path exists already, or its directory does not. */
  static async listen(options: VsockOptions): Promise<FakeVsock> {
    const vsock = new FakeVsock(options);
    await new Promise<void>((resolve, reject) => {
      vsock.#server.once('error', (cause) =>
        reject(
          apiError('The VM could not boot', 'Error binding to the host-side Unix socket', osError(cause)),
        ),
      );
      vsock.#server.listen(options.path, resolve);
    });
    return vsock;
  }

  get connectionCount(): number {
    return this.#sockets.size;
  }

  /** Graceful: removes the socket's path too. */
  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #serve(socket: Socket, { isUp, accept }: VsockOptions): void {
    socket.on('error', () => undefined);
    if (this.#sockets.size >= MAX_CONNECTIONS) {
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    let line = Buffer.alloc(0);
    const onData = (chunk: Buffer): void => {
      line = Buffer.concat([line, chunk]);
      const end = line.indexOf('\n');
      if (end < 0 && line.length < MAX_LINE_BYTES) return;
      socket.removeListener('data', onData);
      socket.pause();
      const port = Number(/^connect (\d+)$/i.exec(line.toString('latin1', 0, Math.max(0, end)))?.[1]);
      if (Number.isNaN(port) || end >= MAX_LINE_BYTES) {
        socket.destroy();
        return;
      }
      const rest = line.subarray(end + 1);
      // Before the driver is up, no connection is ever answered.
      if (!isUp()) return;
      const fault = takeFault('vsock');
      if (fault?.kind === 'hang') return;
      // The port has no listener: close without a response.
      if (port !== AGENT_PORT || fault !== undefined) {
        socket.end();
        return;
      }
      if (rest.length > 0) socket.unshift(rest);
      // Data that the guest sends at once may arrive in the same chunk.
      socket.cork();
      socket.write(`OK ${this.#nextPort++}\n`);
      accept(socket);
      process.nextTick(() => socket.uncork());
    };
    socket.on('data', onData);
  }
}

export function isGuestUp(bootedAt: number): boolean {
  return performance.now() - bootedAt >= readKnobs().guestUpMs;
}
