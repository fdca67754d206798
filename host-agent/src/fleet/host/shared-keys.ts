// The keys of the fleet on this host: its registry follows those of the cluster. Without the API server it goes on with
// what it has.
import type { Logger } from 'pino';
import type { KeyRecord, KeyRegistry } from '../../keys/index.ts';
import { toError } from '../../lib/errors.ts';
import type { KubeClient } from '../kube/client.ts';
import { Watch } from '../kube/watch.ts';
import { KEY_LABEL, type KeyObject, keysPath, readKeyObject } from '../kubernetes/key-objects.ts';
import type { FleetSeal } from '../seal.ts';

/** A list without an end would fill the registry. */
export const MAX_KEYS = 10_000;
const RETRY_MS = 5000;

export type SharedKeysOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly namespace: string;
  readonly keys: Pick<KeyRegistry, 'setShared'>;
  readonly log: Logger;
  readonly maxKeys?: number | undefined;
};

export class SharedKeys {
  readonly #options: SharedKeysOptions;
  readonly #watch: Watch<KeyObject>;
  /** By the name of the object. */
  #keys = new Map<string, KeyRecord>();
  #writing: Promise<void> | undefined;
  #isChanged = false;
  #isClosed = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(options: SharedKeysOptions) {
    this.#options = options;
    const { client, namespace, log } = options;
    this.#watch = new Watch({
      ...{ client, log, path: keysPath(namespace), query: { labelSelector: KEY_LABEL } },
      read: (object) => this.#read(object),
      onList: (keys) => this.#set(new Map(keys.map(({ name, key }) => [name, key]))),
      onChange: (change, object) => this.#change(change === 'put', object),
    });
  }

  start(): void {
    if (!this.#isClosed) this.#watch.start();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    await this.#watch.close();
    await this.#writing;
  }

  #read(object: unknown): KeyObject | undefined {
    const read = readKeyObject(object, this.#options.seal);
    if (!('problem' in read)) return read;
    this.#options.log.warn(
      { configMap: nameOf(object), reason: read.problem },
      'a key of the fleet is not accepted',
    );
    return undefined;
  }

  #change(isPut: boolean, object: unknown): void {
    const keys = new Map(this.#keys);
    const read = isPut ? this.#read(object) : undefined;
    if (read === undefined) keys.delete(nameOf(object));
    else keys.set(read.name, read.key);
    this.#set(keys);
  }

  /** One write at a time, of what is known then. */
  #set(keys: Map<string, KeyRecord>): void {
    this.#keys = keys;
    this.#isChanged = true;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    const { keys, log, maxKeys = MAX_KEYS } = this.#options;
    while (this.#isChanged && !this.#isClosed) {
      this.#isChanged = false;
      const all = [...this.#keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key);
      if (all.length > maxKeys)
        log.error(`the fleet has more than ${maxKeys} keys; the others are not accepted`);
      try {
        await keys.setShared(all.slice(0, maxKeys));
      } catch (error) {
        log.error({ reason: toError(error).message }, 'cannot keep the keys of the fleet; trying again');
        this.#isChanged = true;
        this.#retry = setTimeout(() => this.#set(this.#keys), RETRY_MS);
        return;
      }
    }
  }
}

function nameOf(object: unknown): string {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown } };
  return String(metadata?.name ?? '');
}
