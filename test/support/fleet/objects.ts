// The objects of the stand-in API server: versions, finalizers, and what watches see.
import { randomUUID } from 'node:crypto';

export type KubeObject = {
  apiVersion?: string;
  kind?: string;
  metadata: {
    name: string;
    namespace?: string;
    uid: string;
    resourceVersion: string;
    creationTimestamp: string;
    deletionTimestamp?: string;
    deletionGracePeriodSeconds?: number;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    finalizers?: string[] | null;
    ownerReferences?: { name: string; uid: string }[];
  };
  data?: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: of any kind.
  spec?: any;
  // biome-ignore lint/suspicious/noExplicitAny: of any kind.
  status?: any;
};

export type KubeEvent = {
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: KubeObject;
  version: number;
  resource: string;
};

export class Refused extends Error {
  readonly status: number;
  readonly reason: string;
  constructor(status: number, reason: string, message: string) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

export class Objects {
  /** By resource. */
  readonly #all = new Map<string, Map<string, KubeObject>>();
  readonly #history: KubeEvent[] = [];
  readonly #listeners = new Set<(event: KubeEvent) => void>();
  #version = 1000;
  #compacted = 0;

  get version(): number {
    return this.#version;
  }

  list(resource: string, namespace?: string): KubeObject[] {
    const all = [...this.#of(resource)];
    const chosen = namespace === undefined ? all : all.filter(([key]) => key.startsWith(`${namespace}/`));
    return chosen.map(([, object]) => object);
  }

  find(resource: string, namespace: string, name: string): KubeObject | undefined {
    return this.#of(resource).get(`${namespace}/${name}`);
  }

  get(resource: string, namespace: string, name: string): KubeObject {
    const found = this.find(resource, namespace, name);
    if (found === undefined) throw new Refused(404, 'NotFound', `${resource} "${name}" not found`);
    return found;
  }

  create(resource: string, namespace: string, body: KubeObject): KubeObject {
    const { name } = body.metadata;
    if (this.find(resource, namespace, name) !== undefined)
      throw new Refused(409, 'AlreadyExists', `${resource} "${name}" already exists`);
    const object = {
      ...body,
      metadata: {
        ...body.metadata,
        ...(namespace !== '' && { namespace }),
        uid: randomUUID(),
        creationTimestamp: new Date().toISOString().replace(/\.\d+/, ''),
      },
    };
    return this.#put('ADDED', resource, object);
  }

  change(
    resource: string,
    { metadata: { namespace = '', name } }: KubeObject,
    patch: Record<string, unknown>,
  ): KubeObject {
    const found = this.get(resource, namespace, name);
    const uid = (patch.metadata as { uid?: string } | undefined)?.uid;
    if (uid !== undefined && uid !== found.metadata.uid)
      throw new Refused(422, 'Invalid', `metadata.uid: Invalid value: "${uid}": field is immutable`);
    const version = (patch.metadata as { resourceVersion?: string } | undefined)?.resourceVersion;
    assertVersion(found, version);
    const changed = mergeOf(found, patch) as KubeObject;
    const isOver = changed.metadata.deletionTimestamp !== undefined && !changed.metadata.finalizers?.length;
    // A pod that is bound goes when its node says so.
    if (isOver && (resource !== 'pods' || changed.spec.nodeName === undefined))
      return this.#drop(resource, changed);
    return this.#put('MODIFIED', resource, changed);
  }

  delete(
    resource: string,
    namespace: string,
    name: string,
    graceS: number | undefined,
    uid?: string,
    version?: string,
  ): KubeObject {
    const found = this.get(resource, namespace, name);
    if (uid !== undefined && uid !== found.metadata.uid)
      throw new Refused(409, 'Conflict', 'Precondition failed: UID in precondition');
    assertVersion(found, version);
    const isBound = resource === 'pods' && found.spec?.nodeName !== undefined;
    const grace = graceS ?? (isBound ? (found.spec?.terminationGracePeriodSeconds ?? 30) : 0);
    if (!found.metadata.finalizers?.length && grace === 0) return this.#drop(resource, found);
    const deletionTimestamp = found.metadata.deletionTimestamp ?? new Date().toISOString();
    const metadata = { ...found.metadata, deletionTimestamp, deletionGracePeriodSeconds: grace };
    return this.#put('MODIFIED', resource, { ...found, metadata });
  }

  /** Without grace and finalizer, as `kubectl delete --force` does after an edit. */
  removePod(pod: KubeObject): void {
    const { namespace = '', name } = pod.metadata;
    this.change('pods', pod, { metadata: { finalizers: null } });
    // One that was being deleted goes with its finalizer.
    if (this.find('pods', namespace, name) !== undefined) this.delete('pods', namespace, name, 0);
  }

  /** Watches from any version so far are refused. */
  compact(): void {
    this.#compacted = this.#version + 1;
    this.#history.length = 0;
  }

  /** Events after that version. Refused 410 when they are compacted. Returns what unsubscribes. */
  watch(resource: string, from: number, listener: (event: KubeEvent) => void): () => void {
    if (from < this.#compacted) throw new Refused(410, 'Expired', `too old resource version: ${from}`);
    const own = (event: KubeEvent): void => {
      if (event.resource === resource) listener(event);
    };
    for (const event of this.#history) if (event.version > from) own(event);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  #put(type: KubeEvent['type'], resource: string, object: KubeObject): KubeObject {
    const version = ++this.#version;
    const { namespace = '', name } = object.metadata;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    if (type === 'DELETED') this.#of(resource).delete(`${namespace}/${name}`);
    else this.#of(resource).set(`${namespace}/${name}`, stored);
    const event = { type, object: stored, version, resource };
    this.#history.push(event);
    for (const listener of [...this.#listeners]) listener(event);
    return stored;
  }

  #drop(resource: string, object: KubeObject): KubeObject {
    const dropped = this.#put('DELETED', resource, object);
    // The garbage collector.
    for (const kind of [...this.#all.keys()])
      for (const owned of this.list(kind))
        if (owned.metadata.ownerReferences?.some(({ uid }) => uid === object.metadata.uid))
          this.#drop(kind, owned);
    return dropped;
  }

  #of(resource: string): Map<string, KubeObject> {
    const all = this.#all.get(resource) ?? new Map<string, KubeObject>();
    this.#all.set(resource, all);
    return all;
  }
}

function assertVersion({ metadata }: KubeObject, version: string | undefined): void {
  if (version !== undefined && version !== metadata.resourceVersion)
    throw new Refused(409, 'Conflict', 'the object has been modified');
}

/** RFC 7386; lists are replaced. */
export function mergeOf(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const merged: Record<string, unknown> = typeof target === 'object' && target !== null ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = mergeOf(merged[name], value);
  }
  return merged;
}

/** By the selectors of a list or watch, as far as the fleet uses them. */
export function toFilter(query: URLSearchParams): (object: KubeObject) => boolean {
  const label = query.get('labelSelector');
  const fields = query.get('fieldSelector') ?? '';
  const name = /(?:^|,)metadata\.name=([^,]*)/.exec(fields)?.[1];
  const node = /(?:^|,)spec\.nodeName=([^,]*)/.exec(fields)?.[1];
  return ({ metadata, spec }) =>
    (name === undefined || metadata.name === name) &&
    (label === null || metadata.labels?.[label] !== undefined) &&
    (node === undefined || spec?.nodeName === node);
}
