// Stored secrets: guests can use them and never have them.
import type { Requests } from './connection/requests.ts';
import type { CallOptions, SecretInfo, SecretToStore } from './contract.ts';

export type ListSecretsOptions = CallOptions & {
  /** Maximum number of entries, the oldest; default: all. */
  readonly limit?: number | undefined;
};

/** Those of the tenant of the key. No answer has a value. */
export class Secrets {
  readonly #requests: Requests;

  constructor(requests: Requests) {
    this.#requests = requests;
  }

  /** Oldest first. */
  async list({ limit, ...options }: ListSecretsOptions = {}): Promise<readonly SecretInfo[]> {
    return this.#requests.list('listSecrets', options, ({ secrets }) => secrets, limit);
  }

  /** NotFoundError. */
  get(name: string, options: CallOptions = {}): Promise<SecretInfo> {
    return this.#requests.call('getSecret', { params: { name }, ...options });
  }

  /** Stores one, or replaces its value, source and hosts: running sandboxes use the new value at once. */
  set(name: string, secret: SecretToStore, options: CallOptions = {}): Promise<SecretInfo> {
    return this.#requests.call('putSecret', { params: { name }, body: secret, ...options });
  }

  /** Also one that is in use: requests with it are refused then. NotFoundError. */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.#requests.call('deleteSecret', { params: { name }, ...options });
  }
}
