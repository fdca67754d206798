// Makes, lists and revokes the keys of a fleet, for `sandboxd keys` with a kubeconfig.
import {
  hashKey,
  KEY_NAME,
  type KeyForm,
  type KeyRecord,
  type ListedKey,
  mintKey,
  type NewKey,
  stateOf,
  toKeyId,
} from '../../keys/index.ts';
import { AppError } from '../../lib/errors.ts';
import { isRefusal, type KubeClient, KubeError, type KubeRequest } from '../kube/client.ts';
import { readPages } from '../kube/pages.ts';
import type { FleetSeal } from '../seal.ts';
import {
  KEY_LABEL,
  type KeyObject,
  keysPath,
  MAX_KEYS,
  readKeyObject,
  toKeyObject,
  toKeyObjectName,
} from './key-objects.ts';

export type FleetKeysOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly namespace: string;
  readonly maxKeys?: number;
};

export class FleetKeys {
  readonly #options: FleetKeysOptions;
  readonly #path: string;
  #unread = 0;

  constructor(options: FleetKeysOptions) {
    this.#options = options;
    this.#path = keysPath(options.namespace);
  }

  /** ConfigMaps that are no keys of this fleet, at the latest reading of all: another secret made or changed them. */
  get unread(): number {
    return this.#unread;
  }

  /** Oldest first. AppError when the API server refuses, or does not answer, as for all of these. */
  async list(): Promise<ListedKey[]> {
    return (await this.#all()).map(({ key }) => toListed(key)).sort((a, b) => a.createdAtMs - b.createdAtMs);
  }

  /** Resolves with the text of the key, which is not stored. AppError conflict when a valid key has the name. */
  async create(newKey: NewKey, form?: KeyForm): Promise<{ readonly text: string; readonly key: ListedKey }> {
    const text = mintKey(form);
    const name = toKeyObjectName(newKey.name);
    const { maxKeys = MAX_KEYS } = this.#options;
    const before = await this.#find(name);
    // Hosts know by it that the one before has ended, also where clocks differ.
    const createdAtMs = Math.max(Date.now(), (before?.key.createdAtMs ?? 0) + 1);
    const record: KeyRecord = { ...newKey, hash: hashKey(text), createdAtMs };
    if ((await this.#all()).length >= maxKeys && before === undefined)
      throw new AppError('exhausted', `the fleet has ${maxKeys} keys; remove ConfigMaps of revoked ones`);
    if (before !== undefined && stateOf(before.key) === 'valid') throw taken(newKey.name);
    await this.#write(record, before).catch((error: unknown) => {
      throw isRefusal(error, 409) ? taken(newKey.name) : error;
    });
    return { text, key: toListed(record) };
  }

  /** The key with that name or id. AppError not_found when there is none, or none that is not revoked. */
  async revoke(nameOrId: string): Promise<readonly ListedKey[]> {
    const isMeant = ({ key }: KeyObject): boolean =>
      (key.name === nameOrId || toKeyId(key.hash) === nameOrId) && stateOf(key) !== 'revoked';
    const all = new Map((await this.#all()).map((each) => [each.name, each]));
    // By its name, too: others may have taken its label away, and could give it back.
    const named = KEY_NAME.test(nameOrId) ? await this.#read(toKeyObjectName(nameOrId)) : undefined;
    if (named !== undefined && !('problem' in named)) all.set(named.name, named);
    const found = [...all.values()].filter(isMeant);
    if (found.length === 0)
      throw new AppError('not_found', `the fleet has no key ${JSON.stringify(nameOrId)} that is not revoked`);
    for (const each of found)
      await this.#write({ ...each.key, revokedAtMs: Date.now() }, each).catch((error: unknown) => {
        if (!isRefusal(error, 409)) throw error;
        throw new AppError('conflict', `the key ${each.key.name} is being changed; try again`);
      });
    return found.map(({ key }) => toListed(key));
  }

  async #write(key: KeyRecord, before: KeyObject | undefined): Promise<void> {
    const { seal, namespace } = this.#options;
    const object = toKeyObject(namespace, key, seal);
    if (before === undefined) {
      await this.#ask({ method: 'POST', path: this.#path, body: object }, 409);
      return;
    }
    // Refused if another one has changed it since.
    const metadata = { ...object.metadata, resourceVersion: before.version };
    const path = `${this.#path}/${before.name}`;
    await this.#ask({ method: 'PATCH', path, body: { ...object, metadata }, patch: 'merge' }, 409);
  }

  async #find(name: string): Promise<KeyObject | undefined> {
    const read = await this.#read(name);
    if (read === undefined || !('problem' in read)) return read;
    throw new AppError('conflict', `the ConfigMap ${name} cannot be used: ${read.problem}; delete it first`);
  }

  async #read(name: string): Promise<ReturnType<typeof readKeyObject> | undefined> {
    const request = { method: 'GET', path: `${this.#path}/${name}` } as const;
    const object = await this.#ask(request, 404).catch((error: unknown) => {
      if (isRefusal(error, 404)) return undefined;
      throw error;
    });
    return object === undefined ? undefined : readKeyObject(object, this.#options.seal);
  }

  async #all(): Promise<KeyObject[]> {
    const found: KeyObject[] = [];
    let unread = 0;
    const list = { path: this.#path, query: { labelSelector: KEY_LABEL } };
    for await (const objects of readPages((request) => this.#ask(request), list)) {
      for (const object of objects) {
        const read = readKeyObject(object, this.#options.seal);
        if ('problem' in read) unread += 1;
        else found.push(read);
      }
    }
    this.#unread = unread;
    return found;
  }

  /** KubeError for what the caller expects. */
  async #ask(request: KubeRequest, ...expected: readonly number[]): Promise<unknown> {
    return await this.#options.client.request(request).catch((error: unknown) => {
      if (!(error instanceof KubeError) || expected.includes(error.status)) throw error;
      const code = error.status === 401 || error.status === 403 ? 'forbidden' : 'upstream';
      throw new AppError(code, `the API server of the fleet refuses this: ${error.message}`);
    });
  }
}

function taken(name: string): AppError {
  const message = `there is a key ${JSON.stringify(name)} of the fleet already; revoke it, or choose another name`;
  return new AppError('conflict', message);
}

function toListed(key: KeyRecord): ListedKey {
  return { ...key, isShared: true, id: toKeyId(key.hash) };
}
