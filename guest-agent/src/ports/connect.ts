// Connections of the host to TCP servers in this guest, whatever address of the guest they listen at.
import { constants, networkInterfaces } from 'node:os';
import {
  AgentError,
  MAX_PORT_CONNECTIONS,
  MIN_WINDOW_BYTES,
  type PortConnect,
  type Stream,
} from '@sandboxd/proto';
import { addon } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import { PortSocket } from './port-socket.ts';

/** Where programs listen that name no address of a network, in the order of how common that is. */
const LOCAL_ADDRESSES = ['127.0.0.1', '::1', '127.0.1.1'];
const MAX_OWN_ADDRESSES = 16;
const { errno } = constants;
/** The address is not there, or nothing listens at it. */
const ABSENT: readonly number[] = [
  errno.ECONNREFUSED,
  errno.EADDRNOTAVAIL,
  errno.EAFNOSUPPORT,
  errno.ENETUNREACH,
  errno.EHOSTUNREACH,
  errno.ENETDOWN,
].map((code) => -code);

/** How many connections there may be; one that still writes after its stream counts. */
export class PortBudget {
  #open = 0;

  /** Throws AgentError. */
  open(): void {
    if (this.#open >= MAX_PORT_CONNECTIONS)
      throw new AgentError(
        'busy',
        `there are ${MAX_PORT_CONNECTIONS} connections to ports already; end some`,
      );
    this.#open += 1;
  }

  close(): void {
    this.#open -= 1;
  }
}

type PortContext = { readonly poller: Poller; readonly ports: PortBudget };

/** Throws AgentError. */
export function startPortConnect(context: PortContext, stream: Stream, { port, window }: PortConnect): void {
  if (port < 1 || port > 65_535) throw new AgentError('invalid', `port ${port} is not 1 to 65535`);
  if (window > 0) {
    if (window < MIN_WINDOW_BYTES) throw new AgentError('invalid', `a window of ${window} bytes`);
    stream.narrow(window);
  }
  context.ports.open();
  new Attempt(context, stream, port).next();
}

/** Tries one address after the other. */
class Attempt {
  readonly #context: PortContext;
  readonly #stream: Stream;
  readonly #port: number;
  readonly #addresses = candidates();
  #fd = -1;
  #watch: Watch | undefined;

  constructor(context: PortContext, stream: Stream, port: number) {
    this.#context = context;
    this.#stream = stream;
    this.#port = port;
    stream.handlers = {
      cancel: () => {
        this.#stop();
        stream.finish({ error: { code: 'cancelled', message: 'the connection was given up' } });
      },
      lost: () => this.#stop(),
    };
  }

  next(): void {
    // Not for-of: leaving it would end the generator.
    for (let at = this.#addresses.next(); !at.done; at = this.#addresses.next()) {
      const fd = addon.connectPort(at.value, this.#port);
      if (fd >= 0) {
        this.#fd = fd;
        this.#watch = this.#context.poller.watch(fd, POLL.out, () => this.#onReady());
        return;
      }
      if (!ABSENT.includes(fd)) {
        this.#fail(fd);
        return;
      }
    }
    this.#context.ports.close();
    const message = `nothing listens on port ${this.#port} of the sandbox`;
    this.#stream.finish({ error: { code: 'not_found', message } });
  }

  #onReady(): void {
    const fd = this.#fd;
    const result = addon.portConnected(fd);
    this.#watch?.close();
    if (result === 0) {
      const { poller, ports } = this.#context;
      new PortSocket({ poller, stream: this.#stream, fd, onClose: () => ports.close() }).start();
      return;
    }
    addon.close(fd);
    if (ABSENT.includes(result)) this.next();
    else this.#fail(result);
  }

  #fail(result: number): void {
    this.#context.ports.close();
    const message = `cannot connect to port ${this.#port} (error ${-result})`;
    const isFull = result === -errno.EMFILE || result === -errno.ENFILE || result === -errno.ENOBUFS;
    this.#stream.finish({ error: { code: isFull ? 'busy' : 'internal', message } });
  }

  #stop(): void {
    this.#watch?.close();
    addon.resetAndClose(this.#fd);
    this.#context.ports.close();
  }
}

/** The guest's own addresses are looked up only if nothing listens at the local ones. */
function* candidates(): Generator<string> {
  yield* LOCAL_ADDRESSES;
  const own = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, scopeid = 0 }) => !internal && scopeid === 0)
    .map(({ address }) => address);
  yield* own.slice(0, MAX_OWN_ADDRESSES);
}
