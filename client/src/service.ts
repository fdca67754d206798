// The supervised service of a sandbox.

import { readLines } from './connection/lines.ts';
import { Reconnect } from './connection/reconnect.ts';
import type { Requests } from './connection/requests.ts';
import type { CallOptions, ServiceSpec, ServiceStatus } from './contract.ts';
import { SandboxdError } from './errors.ts';
import { type Chunk, makeChunk } from './exec/exec.ts';
import type { Schemas } from './gen/schemas.ts';

const LINES = 'application/x-ndjson';

export class Service {
  readonly #requests: Requests;
  readonly #params: { readonly id: string };

  constructor(requests: Requests, id: string) {
    this.#requests = requests;
    this.#params = { id };
  }

  /** Sets the command, and starts or restarts it. */
  configure(spec: ServiceSpec, options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.call('configureService', { params: this.#params, body: spec, ...options });
  }

  status(options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.call('getService', { params: this.#params, ...options });
  }

  start(options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.call('startService', { params: this.#params, ...options });
  }

  /** `graceS`: seconds from the stop signal to SIGKILL, for this stop. */
  stop({ graceS, ...options }: CallOptions & { readonly graceS?: number } = {}): Promise<ServiceStatus> {
    const body = graceS === undefined ? {} : { grace_s: graceS };
    return this.#requests.call('stopService', { params: this.#params, body, ...options });
  }

  restart(options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.call('restartService', { params: this.#params, ...options });
  }

  /**
   * Output from the oldest kept byte; `follow`: also new output, until the loop ends or the sandbox is gone
   * (NotFoundError), across restarts of the daemon.
   */
  async *logs({
    follow = false,
    ...options
  }: CallOptions & { readonly follow?: boolean } = {}): AsyncGenerator<Chunk, void> {
    const reconnect = new Reconnect();
    const position = new LogPosition();
    for (;;) {
      let failure: unknown;
      const query = { ...position.query, ...(!follow && { follow: 0 }) };
      try {
        const call = { params: this.#params, query, accept: LINES, ...options };
        const { body, header } = await this.#requests.stream('readServiceLogs', call);
        if (!header('content-type')?.startsWith(LINES))
          throw new SandboxdError('the daemon is older than this library: it has no lines of service logs');
        reconnect.answered();
        for await (const line of readLines(body)) {
          reconnect.progressed();
          const chunk =
            line === '' ? undefined : position.take(JSON.parse(line) as Schemas['ServiceLogLine']);
          if (chunk !== undefined) yield chunk;
        }
        if (!follow) return;
      } catch (error) {
        if (!follow) throw error;
        failure = error;
      }
      await reconnect.wait(failure, options.signal);
    }
  }
}

/** The read position in the service's log. */
class LogPosition {
  #ring: string | undefined;
  #next = 0;
  #hasOutput = false;

  get query(): { readonly ring?: string; readonly from_seq?: number } {
    return this.#ring === undefined ? {} : { ring: this.#ring, from_seq: this.#next };
  }

  /** Returns the output to show for a line, if any. */
  take({ seq, ring, dropped_bytes, stream, data }: Schemas['ServiceLogLine']): Chunk | undefined {
    this.#ring = ring ?? this.#ring;
    this.#next = data === undefined ? seq : seq + 1;
    if (stream !== undefined && data !== undefined) {
      this.#hasOutput = true;
      return makeChunk(
        stream,
        Uint8Array.from(atob(data), (each) => each.charCodeAt(0)),
      );
    }
    // Bytes that were dropped before the first output are not reported.
    if (dropped_bytes === undefined || !this.#hasOutput) return undefined;
    const notice = `\n[sandboxd: ${dropped_bytes} bytes of output were dropped here]\n`;
    return makeChunk('stderr', new TextEncoder().encode(notice));
  }
}
