// A minimal HTTP client: one persistent connection; bytes are read into one buffer and only counted. On few cores, the
// client's CPU time would distort the measurement.
import { connect, type Socket } from 'node:net';

const END = '0\r\n\r\n';

type PlainAnswer = {
  readonly status: number;
  /** Size of everything except the head, chunk headers included. */
  readonly wireBytes: number;
  readonly ms: number;
  /** The last bytes, as text. */
  readonly tail: string;
};

export class PlainClient implements Disposable {
  readonly #socket: Socket;
  readonly #host: string;
  readonly #memory = Buffer.allocUnsafeSlow(1 << 20);
  #onBytes: (bytes: Buffer) => void = () => {};

  constructor(url: string) {
    const { hostname, port, host } = new URL(url);
    this.#host = host;
    this.#socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: {
        buffer: this.#memory,
        callback: (size, buffer) => {
          this.#onBytes((buffer as Buffer).subarray(0, size));
          return true;
        },
      },
    });
  }

  /** Sends a request and reads its response to the end, of any length. `body` is sent in chunks with backpressure. */
  async request(method: string, path: string, body: Buffer): Promise<PlainAnswer> {
    if (this.#socket.destroyed) throw new Error('the connection was closed before');
    const startedAt = performance.now();
    let head = '';
    let isBody = false;
    let wireBytes = 0;
    let expectedBytes: number | undefined;
    let tail = '';
    const done = Promise.withResolvers<void>();
    this.#socket.once('close', () => done.reject(new Error('the connection was closed')));
    this.#onBytes = (bytes) => {
      let rest = bytes;
      if (!isBody) {
        head += bytes.toString('latin1');
        const end = head.indexOf('\r\n\r\n');
        if (end < 0) return;
        isBody = true;
        rest = bytes.subarray(bytes.length - (head.length - end - 4));
        const length = /^content-length: (\d+)/im.exec(head)?.[1];
        expectedBytes = length === undefined ? undefined : Number(length);
      }
      wireBytes += rest.length;
      tail = (tail + rest.subarray(Math.max(0, rest.length - 300)).toString('latin1')).slice(-300);
      if (expectedBytes === undefined ? tail.endsWith(END) : wireBytes >= expectedBytes) done.resolve();
    };
    this.#socket.write(
      `${method} ${path} HTTP/1.1\r\nHost: ${this.#host}\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    for (let at = 0; at < body.length; at += 1 << 18) {
      if (!this.#socket.write(body.subarray(at, at + (1 << 18))))
        await new Promise((resolve) => this.#socket.once('drain', resolve));
    }
    await done.promise;
    this.#socket.removeAllListeners('close');
    const status = Number(/^HTTP\/1.1 (\d+)/.exec(head)?.[1]);
    return { status, wireBytes, ms: performance.now() - startedAt, tail };
  }

  [Symbol.dispose](): void {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }
}
