// The supervised service of a sandbox.
import type { Requests } from './connection/requests.ts';
import type { CallOptions, ServiceSpec, ServiceStatus } from './contract.ts';
import { type Chunk, readChunks } from './exec/chunk.ts';

export class Service {
  readonly #requests: Requests;
  readonly #params: { readonly id: string };

  constructor(requests: Requests, id: string) {
    this.#requests = requests;
    this.#params = { id };
  }

  /** Sets what to run, and starts or restarts it. */
  configure(spec: ServiceSpec, options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.ask('configureService', { params: this.#params, body: spec, ...options });
  }

  status(options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.ask('getService', { params: this.#params, ...options });
  }

  start(options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.ask('startService', { params: this.#params, ...options });
  }

  /** `graceS`: seconds from the stop signal to SIGKILL, for this stop. */
  stop({ graceS, ...options }: CallOptions & { readonly graceS?: number } = {}): Promise<ServiceStatus> {
    const body = graceS === undefined ? {} : { grace_s: graceS };
    return this.#requests.ask('stopService', { params: this.#params, body, ...options });
  }

  restart(options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#requests.ask('restartService', { params: this.#params, ...options });
  }

  /** What it wrote, from the oldest that is kept; `follow`: and what it writes from now on, until the loop is left. */
  async *logs({
    follow = false,
    ...options
  }: CallOptions & { readonly follow?: boolean } = {}): AsyncGenerator<Chunk, void> {
    const query = follow ? {} : { follow: 0 };
    const { body } = await this.#requests.stream('readServiceLogs', {
      params: this.#params,
      query,
      ...options,
    });
    yield* readChunks(body);
  }
}
