// Ports of a sandbox: which are open for URLs.
import type { Requests } from './connection/requests.ts';
import type { CallOptions, ListedLink, OpenPort, PortLink, PublishedPort } from './contract.ts';
import { SandboxdError } from './errors.ts';
import type { Schemas } from './gen/schemas.ts';

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
  open(port: number, { access, host, ...options }: OpenPortOptions = {}): Promise<OpenPort> {
    const body = { port, ...(access !== undefined && { access }), ...(host !== undefined && { host }) };
    return this.#requests.call('openPort', { params: this.#params, body, ...options });
  }

  /** Does nothing if it is not open. */
  async close(port: number, options: CallOptions = {}): Promise<void> {
    const params = { ...this.#params, port: String(port) };
    await this.#requests.call('closePort', { params, ...options });
  }

  /** Ports of the host that lead to the sandbox. */
  async published(options: CallOptions = {}): Promise<readonly PublishedPort[]> {
    const { published = [] } = await this.#requests.call('listPorts', { params: this.#params, ...options });
    return published;
  }

  /** A port of the host leads to `port` from now on; the sandbox needs a network. ConflictError for one in use. */
  publish(port: number, { hostPort, hostIp, ...options }: PublishOptions): Promise<PublishedPort> {
    const body = { host_port: hostPort, ...(hostIp !== undefined && { host_ip: hostIp }) };
    return this.#requests.call('publishPort', { params: this.#of(port), body, ...options });
  }

  /** Frees the port of the host, on all its addresses. Does nothing if it is not published. */
  async unpublish(port: number, hostPort: number, options: CallOptions = {}): Promise<void> {
    const params = { ...this.#of(port), host_port: String(hostPort) };
    await this.#requests.call('unpublishPort', { params, ...options });
  }

  /** The URL of a port, for holders of keys or links; a closed one is opened, privately. */
  async url(port: number, options: CallOptions = {}): Promise<string> {
    const open = (await this.list(options)).find((each) => each.port === port);
    const { url } = open ?? (await this.open(port, options));
    if (url !== undefined) return url;
    throw new SandboxdError(
      'the daemon has no ingress, so ports have no URLs; start it with --ingress-listen',
    );
  }

  /** Makes a link: a client with its `url` can use the port until it expires. A closed port is opened, privately. */
  link(port: number, { expiresS, methods, ...options }: LinkOptions = {}): Promise<PortLink> {
    const body = {
      ...(expiresS !== undefined && { expires_s: expiresS }),
      ...(methods !== undefined && { methods: [...methods] }),
    };
    return this.#requests.call('makeLink', { params: this.#of(port), body, ...options });
  }

  /** The valid links to a port, without their secrets; oldest first. */
  async links(port: number, options: CallOptions = {}): Promise<readonly ListedLink[]> {
    const { links } = await this.#requests.call('listLinks', { params: this.#of(port), ...options });
    return links;
  }

  /** NotFoundError if there is no such link. */
  async deleteLink(port: number, id: string, options: CallOptions = {}): Promise<void> {
    await this.#requests.call('deleteLink', { params: { ...this.#of(port), link: id }, ...options });
  }

  #of(port: number): { readonly id: string; readonly port: string } {
    return { ...this.#params, port: String(port) };
  }
}

export type LinkOptions = CallOptions & {
  /** Seconds; default: a day. */
  readonly expiresS?: number;
  /** Default: all. `GET` is also for WebSockets. */
  readonly methods?: NonNullable<Schemas['LinkRequest']['methods']>;
};

export type PublishOptions = CallOptions & {
  readonly hostPort: number;
  /** Address of the host; default: every one. */
  readonly hostIp?: string;
};

export type OpenPortOptions = CallOptions & {
  readonly access?: OpenPort['access'];
  /** The header Host that the server gets; default: as the client sent it. */
  readonly host?: NonNullable<OpenPort['host']>;
};
