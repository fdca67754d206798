// A server's connection without a network: records written data and simulates its client's reads.
import { Socket } from 'node:net';

export class FakeSocket extends Socket {
  /** All written data. */
  said = '';
  /** Whether the client reads nothing. */
  isStuck = false;
  isEnded = false;
  /** Bytes that the client had read before. */
  tookBefore = 0;

  constructor(
    from: Partial<Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress' | 'localPort'>> = {},
  ) {
    super({ allowHalfOpen: true });
    const { remoteAddress = '127.0.0.1', remotePort, localAddress = '127.0.0.1', localPort } = from;
    for (const [name, value] of Object.entries({ remoteAddress, remotePort, localAddress, localPort }))
      Object.defineProperty(this, name, { value });
    Object.defineProperty(this, 'bytesWritten', {
      get: () => this.tookBefore + this.said.length + this.writableLength,
    });
    // The properties of a Socket need a kernel handle.
    Object.assign(this, {
      _read: () => undefined,
      _writev: undefined,
      _write: (chunk: Buffer | string, coding: BufferEncoding, done: () => void) => {
        if (this.isStuck) return;
        this.said += (typeof chunk === 'string' ? Buffer.from(chunk, coding) : chunk).toString('latin1');
        done();
      },
      _final: (done: () => void) => {
        this.isEnded = true;
        done();
      },
    });
  }
}
