// What the guest of a sandbox may reach: shown, changed while it runs, and explained.
import type { Requests } from './connection/requests.ts';
import type {
  CallOptions,
  ChangedNetwork,
  EgressRecord,
  NetworkChanges,
  NetworkPolicy,
  NetworkTargets,
  NetworkVerdict,
} from './contract.ts';
import { readPages } from './logs.ts';

export class Network {
  readonly #requests: Requests;
  readonly #params: { readonly id: string };

  constructor(requests: Requests, id: string) {
    this.#requests = requests;
    this.#params = { id };
  }

  /** ConflictError without a network. */
  get(options: CallOptions = {}): Promise<NetworkPolicy> {
    return this.#requests.call('getNetwork', { params: this.#params, ...options });
  }

  /**
   * A given list replaces the whole list; absent ones stay. When it resolves, the policy holds, and connections that it
   * does not allow are closed. ConflictError for another generation than `if_generation`, or without a network.
   */
  update(changes: NetworkChanges, options: CallOptions = {}): Promise<ChangedNetwork> {
    return this.#requests.call('updateNetwork', { params: this.#params, body: changes, ...options });
  }

  /** The same for everything; absent lists are empty. */
  replace(targets: NetworkTargets, options: CallOptions = {}): Promise<ChangedNetwork> {
    return this.#requests.call('replaceNetwork', { params: this.#params, body: targets, ...options });
  }

  /** Whether the policy lets a connection, or a request within it, pass, and why. Nothing is sent. */
  check(
    host: string,
    port: number,
    { protocol, method, path, ...options }: CheckOptions = {},
  ): Promise<NetworkVerdict> {
    const request = { ...(method !== undefined && { method }), ...(path !== undefined && { path }) };
    const body = { host, port, ...(protocol !== undefined && { protocol }), ...request };
    return this.#requests.call('checkNetwork', { params: this.#params, body, ...options });
  }

  /** What the guest reached and what it was denied, also of a deleted sandbox. */
  egress({ verdict = 'all', ...options }: EgressOptions = {}): AsyncGenerator<EgressRecord, void> {
    const { since: _, follow: __, ...rest } = options;
    return readPages(options, (since) =>
      this.#requests.call('readEgress', { params: this.#params, query: { verdict, since }, ...rest }),
    );
  }
}

/** Default: tcp. */
export type CheckOptions = CallOptions & {
  readonly protocol?: 'tcp' | 'udp';
  /** Of a request within the connection, where requests are read. */
  readonly method?: string;
  readonly path?: string;
};

export type EgressOptions = CallOptions & {
  readonly verdict?: 'allowed' | 'denied' | 'all';
  /** Byte offset of the first record, 0 for the whole log; default: the last 64 KiB. */
  readonly since?: number;
  /** Polls twice a second until the loop ends, also across restarts of the daemon. */
  readonly follow?: boolean;
};
