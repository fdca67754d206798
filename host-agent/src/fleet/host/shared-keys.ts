// The keys of the fleet on this host: its registry follows those of the cluster. Without the API server it goes on with
// what it has.
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { KeyRecord, KeyRegistry } from '../../keys/index.ts';
import { toError } from '../../lib/errors.ts';
import type { Table } from '../../store/store.ts';
import type { KubeClient } from '../kube/client.ts';
import { Watch } from '../kube/watch.ts';
import { KEY_LABEL, type KeyObject, keysPath, MAX_KEYS, readKeyObject } from '../kubernetes/key-objects.ts';
import type { FleetSeal } from '../seal.ts';
import { Complaints } from './complaints.ts';

const RETRY_MS = 5000;
/** Key of the record of whose keys the registry has. */
const OF = 'keys';

/** `isListed`: the registry has all that a list of them had, if there were any. Earlier versions did not note it. */
export type KeysOfRecord = { readonly id: string; readonly isListed?: true };

export type SharedKeysOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly namespace: string;
  readonly keys: Pick<KeyRegistry, 'setShared' | 'awaitShared' | 'requireKeys'>;
  readonly records: Table<KeysOfRecord>;
  readonly log: Logger;
  readonly maxKeys?: number | undefined;
  readonly retryMs?: number;
};

export class SharedKeys {
  readonly #options: SharedKeysOptions;
  readonly #watch: Watch<KeyObject>;
  /** By the name of the object. */
  #keys = new Map<string, KeyRecord>();
  readonly #complaints: Complaints;
  readonly #id: string;
  #hasUnread = false;
  #writing: Promise<void> = Promise.resolve();
  #isWriting = false;
  #isChanged = false;
  #isClosed = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(options: SharedKeysOptions) {
    this.#options = options;
    const { client, namespace, seal, log } = options;
    this.#id = seal.make('key', namespace);
    this.#complaints = new Complaints(log, 'a key of the fleet is not accepted');
    this.#watch = new Watch({
      ...{ client, log, path: keysPath(namespace), query: { labelSelector: KEY_LABEL } },
      read: (object) => this.#read(object),
      onList: (keys) => this.#set(new Map(keys.map(({ name, key }) => [name, key]))),
      onChange: (change, object) => this.#change(change === 'put', object),
    });
  }

  /**
   * Before clients come: a host that was of another fleet takes the keys of that one no more. Until it has heard of all
   * keys once, it takes no client that it does not know.
   */
  async restore(): Promise<void> {
    const { records, keys, log } = this.#options;
    const known = records.get(OF);
    if (known?.id !== this.#id) {
      await keys.setShared([]);
      await records.put(OF, { id: this.#id });
    } else if (known.isListed) return;
    keys.awaitShared();
    log.warn('only keys of this host are accepted until the API server has listed those of the fleet');
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
    this.#closeForUnread();
    this.#complaints.add({ configMap: nameOf(object), reason: read.problem });
    return undefined;
  }

  /** The fleet may have keys that this host cannot use, because its secret or its version is another. */
  #closeForUnread(): void {
    const { keys, records, log } = this.#options;
    if (this.#hasUnread) return;
    this.#hasUnread = true;
    keys.requireKeys();
    // The next daemon may start without the API server.
    records
      .put(OF, { id: this.#id })
      .catch((err: unknown) => log.warn({ err }, 'cannot note that the fleet may have other keys'));
  }

  #change(isPut: boolean, object: unknown): void {
    const read = isPut ? this.#read(object) : undefined;
    const name = nameOf(object);
    // Who writes ConfigMaps that are no keys gives the registry no work.
    if (isDeepStrictEqual(this.#keys.get(name), read?.key)) return;
    const keys = new Map(this.#keys);
    if (read === undefined) keys.delete(name);
    else keys.set(name, read.key);
    this.#set(keys);
  }

  /** One write at a time, of what is known then. */
  #set(keys: Map<string, KeyRecord>): void {
    this.#keys = keys;
    this.#isChanged = true;
    clearTimeout(this.#retry);
    if (!this.#isWriting) this.#writing = this.#write();
  }

  async #write(): Promise<void> {
    const { keys, records, log, maxKeys = MAX_KEYS, retryMs = RETRY_MS } = this.#options;
    this.#isWriting = true;
    try {
      while (this.#isChanged && !this.#isClosed) {
        this.#isChanged = false;
        const all = [...this.#keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key);
        if (all.length > maxKeys)
          log.error(`the fleet has more than ${maxKeys} keys; the others are not accepted`);
        await keys.setShared(all.slice(0, maxKeys));
        if (this.#hasUnread || records.get(OF)?.isListed) continue;
        await records.put(OF, { id: this.#id, isListed: true });
      }
    } catch (error) {
      log.error({ reason: toError(error).message }, 'cannot keep the keys of the fleet; trying again');
      if (!this.#isClosed) this.#retry = setTimeout(() => this.#set(this.#keys), retryMs);
    } finally {
      // No await since the last check of the loop: a change of then would wait for the next one.
      this.#isWriting = false;
    }
  }
}

function nameOf(object: unknown): string {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown } };
  return String(metadata?.name ?? '');
}
