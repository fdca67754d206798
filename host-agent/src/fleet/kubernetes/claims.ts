// Claims of places: at most one place of the fleet has a text, such as a sandbox's name or the key of a create. A claim
// is a Lease that the pod of the place owns, so the engine removes it with the pod.

import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import type { Place } from '../catalogue.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import { type PlacePod, readPlacePod, SEAL, toPodName } from './pods.ts';

const NAME_CHARS = 32;
const ATTEMPTS = 3;
const RETRY_AFTER_S = 1;

const lease = z.object({
  metadata: z.object({
    name: z.string(),
    uid: z.string(),
    annotations: z.record(z.string(), z.string()).default({}),
    ownerReferences: z.array(z.object({ name: z.string(), uid: z.string() })).min(1),
  }),
});

export class Claims {
  readonly #client: KubeClient;
  readonly #seal: FleetSeal;
  readonly #timeoutMs: number;

  /** `timeoutMs`: of each acquire and release. */
  constructor(client: KubeClient, seal: FleetSeal, timeoutMs: number) {
    this.#client = client;
    this.#seal = seal;
    this.#timeoutMs = timeoutMs;
  }

  /** Undefined when the place has it now, else the place that has it. Rejects as requests do. */
  async acquire(
    claim: string,
    { uid, namespace, ...named }: Place,
    outer: AbortSignal,
  ): Promise<PlacePod | undefined> {
    const signal = AbortSignal.any([outer, AbortSignal.timeout(this.#timeoutMs)]);
    const { name, path } = this.#leaseOf(namespace, claim);
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Pod', name: toPodName(named), uid }];
    const body = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        ...{ name, ownerReferences },
        annotations: { [SEAL]: this.#seal.make('lease', namespace, name, toPodName(named), uid) },
      },
      spec: { holderIdentity: toPodName(named) },
    };
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        await this.#client.request({ method: 'POST', path, body, signal });
        return undefined;
      } catch (error) {
        if (!isRefusal(error, 409)) throw error;
      }
      const holder = await this.#findHolder(namespace, `${path}/${name}`, signal);
      if (holder !== undefined) return holder;
    }
    const message = 'another request with this name or key ends just now; send it again';
    throw new AppError('exhausted', message, { retryAfterS: RETRY_AFTER_S });
  }

  /** If the place has it. Rejects as requests do. */
  async release(claim: string, { uid, namespace }: Place): Promise<void> {
    const signal = AbortSignal.timeout(this.#timeoutMs);
    const { name, path } = this.#leaseOf(namespace, claim);
    const { metadata } = lease.safeParse(await this.#get(`${path}/${name}`, signal)).data ?? {};
    if (metadata?.ownerReferences[0]?.uid !== uid) return;
    await this.#delete(`${path}/${name}`, metadata.uid, signal);
  }

  /** Removes a claim that no gateway made, and one whose place is gone before the engine’s garbage collector comes. */
  async #findHolder(namespace: string, path: string, signal: AbortSignal): Promise<PlacePod | undefined> {
    const found = lease.safeParse(await this.#get(path, signal)).data;
    const [owner] = found?.metadata.ownerReferences ?? [];
    if (found === undefined || owner === undefined) return undefined;
    const { name, annotations } = found.metadata;
    const isOurs = this.#seal.isOf(annotations[SEAL] ?? '', 'lease', namespace, name, owner.name, owner.uid);
    const pod = isOurs ? await this.#get(podPath(namespace, owner.name), signal) : undefined;
    const place = readPlacePod(pod, this.#seal);
    if (place !== undefined && place.uid === owner.uid && !place.isDeleting) return place;
    await this.#delete(path, found.metadata.uid, signal);
    return undefined;
  }

  /** Unless it is another by now. */
  async #delete(path: string, uid: string, signal: AbortSignal): Promise<void> {
    const body = { preconditions: { uid } };
    await this.#client.request({ method: 'DELETE', path, body, signal }).catch((error: unknown) => {
      if (!isRefusal(error, 404, 409)) throw error;
    });
  }

  #leaseOf(namespace: string, claim: string): { readonly name: string; readonly path: string } {
    const name = `sandboxd-${this.#toName(namespace, claim)}`;
    return {
      name,
      path: `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases`,
    };
  }

  async #get(path: string, signal: AbortSignal): Promise<unknown> {
    return await this.#client.request({ method: 'GET', path, signal }).catch((error: unknown) => {
      if (isRefusal(error, 404)) return undefined;
      throw error;
    });
  }

  #toName(namespace: string, claim: string): string {
    const digest = this.#seal.make('claim', namespace, claim);
    return Buffer.from(digest, 'base64url').toString('hex').slice(0, NAME_CHARS);
  }
}
