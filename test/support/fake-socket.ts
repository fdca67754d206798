// A connection without a network, as a server sees it: what was written to it, and what it has of a client's.
import { Socket } from 'node:net';

export class FakeSocket extends Socket {
  /** Everything that was written. */
  said = '';
  /** Whether its client takes nothing. */
  isStuck = false;
  isEnded = false;
  /** Bytes that its client took before. */
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
    // Those of a Socket are for a handle of the kernel's.
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
