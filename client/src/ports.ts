// Ports of a sandbox: which are open for URLs.
import type { Requests } from './connection/requests.ts';
import type { CallOptions, OpenPort } from './contract.ts';

export class Ports {
  readonly #requests: Requests;
  readonly #params: { readonly id: string };

  constructor(requests: Requests, id: string) {
    this.#requests = requests;
    this.#params = { id };
  }

  /** By number. */
  async list(options: CallOptions = {}): Promise<readonly OpenPort[]> {
    const { ports } = await this.#requests.call('listPorts', { params: this.#params, ...options });
    return ports;
  }

  /** Opens a port for URLs, or changes who may use it; default: private. */
  open(port: number, { access, ...options }: OpenPortOptions = {}): Promise<OpenPort> {
    const body = { port, ...(access !== undefined && { access }) };
    return this.#requests.call('openPort', { params: this.#params, body, ...options });
  }

  /** Does nothing if it is not open. */
  async close(port: number, options: CallOptions = {}): Promise<void> {
    const params = { ...this.#params, port: String(port) };
    await this.#requests.call('closePort', { params, ...options });
  }
}

export type OpenPortOptions = CallOptions & { readonly access?: OpenPort['access'] };
