// Connections to guests for Node's HTTP client. Idle ones are kept for a moment, for requests that may be repeated.
import { Agent, type AgentOptions, type ClientRequest, type ClientRequestArgs } from 'node:http';
import type { Duplex } from 'node:stream';
import type { SandboxPorts } from './port-host.ts';

/** Shorter than the 5 s of common servers, which close a connection that is idle for longer. */
const KEPT_MS = 2000;
const MAX_KEPT = 8;
/** Beyond the time in which a sandbox wakes. */
const CONNECT_MS = 120_000;

/** A request and the port that it is for. */
export type GuestRequest = ClientRequestArgs & { readonly sandbox: SandboxPorts; readonly guestPort: number };

export class GuestAgent extends Agent {
  readonly #timers = new WeakMap<Duplex, NodeJS.Timeout>();

  constructor(options: Pick<AgentOptions, 'keepAlive'>) {
    super({ ...options, maxFreeSockets: MAX_KEPT, scheduling: 'lifo' });
  }

  override getName(options?: object): string {
    const { sandbox, guestPort } = options as GuestRequest;
    return `${sandbox.id}:${guestPort}`;
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): null {
    const { sandbox, guestPort } = options as GuestRequest;
    sandbox.connectPort(guestPort, { signal: AbortSignal.timeout(CONNECT_MS) }).then(
      (stream) => {
        stream.once('close', () => clearTimeout(this.#timers.get(stream)));
        callback?.(null, toSocket(stream));
      },
      (error: Error) => callback?.(error, undefined as never),
    );
    return null;
  }

  override keepSocketAlive(socket: Duplex): boolean {
    clearTimeout(this.#timers.get(socket));
    this.#timers.set(socket, setTimeout(() => socket.destroy(), KEPT_MS).unref());
    return true;
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    clearTimeout(this.#timers.get(socket));
    super.reuseSocket(socket, request);
    // An answer to no request must not become that to the next one.
    if (socket.readableLength > 0) socket.destroy();
  }
}

/** With the methods of a socket that Node's agent calls. */
function toSocket(stream: Duplex): Duplex {
  const nothing = (): Duplex => stream;
  return 'ref' in stream ? stream : Object.assign(stream, { ref: nothing, unref: nothing });
}
