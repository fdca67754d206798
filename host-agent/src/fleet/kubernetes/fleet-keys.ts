// Makes, lists and revokes the keys of a fleet, for `sandboxd keys` with a kubeconfig.
import { z } from 'zod';
import {
  hashKey,
  type KeyForm,
  type KeyRecord,
  type ListedKey,
  mintKey,
  type NewKey,
  stateOf,
  toKeyId,
} from '../../keys/index.ts';
import { AppError } from '../../lib/errors.ts';
import { MAX_KEYS } from '../host/shared-keys.ts';
import { isRefusal, type KubeClient, KubeError, type KubeRequest } from '../kube/client.ts';
import type { FleetSeal } from '../seal.ts';
import {
  KEY_LABEL,
  type KeyObject,
  keysPath,
  readKeyObject,
  toKeyObject,
  toKeyObjectName,
} from './key-objects.ts';

const PAGE_ITEMS = 500;
const page = z.object({
  metadata: z.object({ continue: z.string().optional() }).prefault({}),
  items: z.array(z.unknown()),
});

export type FleetKeysOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly namespace: string;
  readonly maxKeys?: number;
};

export class FleetKeys {
  readonly #options: FleetKeysOptions;
  readonly #path: string;

  constructor(options: FleetKeysOptions) {
    this.#options = options;
    this.#path = keysPath(options.namespace);
  }

  /** Oldest first. AppError when the API server refuses, or does not answer, as for all of these. */
  async list(): Promise<ListedKey[]> {
    return (await this.#all()).map(({ key }) => toListed(key)).sort((a, b) => a.createdAtMs - b.createdAtMs);
  }

  /** Resolves with the text of the key, which is not stored. AppError conflict when a valid key has the name. */
  async create(newKey: NewKey, form?: KeyForm): Promise<{ readonly text: string; readonly key: ListedKey }> {
    const text = mintKey(form);
    const record: KeyRecord = { ...newKey, hash: hashKey(text), createdAtMs: Date.now() };
    const name = toKeyObjectName(newKey.name);
    const { maxKeys = MAX_KEYS } = this.#options;
    const before = await this.#find(name);
    if (before === undefined && (await this.#all()).length >= maxKeys)
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
    const found = (await this.#all()).filter(isMeant);
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
    const request = { method: 'GET', path: `${this.#path}/${name}` } as const;
    const object = await this.#ask(request, 404).catch((error: unknown) => {
      if (isRefusal(error, 404)) return undefined;
      throw error;
    });
    if (object === undefined) return undefined;
    const read = readKeyObject(object, this.#options.seal);
    if (!('problem' in read)) return read;
    throw new AppError('conflict', `the ConfigMap ${name} cannot be used: ${read.problem}; delete it first`);
  }

  async #all(): Promise<KeyObject[]> {
    const found: KeyObject[] = [];
    for (let next: string | undefined; ; ) {
      const query = { labelSelector: KEY_LABEL, limit: String(PAGE_ITEMS), continue: next };
      const answer = page.parse(await this.#ask({ method: 'GET', path: this.#path, query }));
      for (const object of answer.items) {
        const read = readKeyObject(object, this.#options.seal);
        if (!('problem' in read)) found.push(read);
      }
      next = answer.metadata.continue || undefined;
      if (next === undefined) return found;
    }
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
