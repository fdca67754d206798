// The catalogue of a fleet in Kubernetes: the scheduler places, and the objects of the API server are what all know.
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { backOffMs } from '../../lib/back-off.ts';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import {
  type Catalogue,
  ClaimTaken,
  type FleetMap,
  type Forgetting,
  type Place,
  type PlaceRequest,
} from '../catalogue.ts';
import { isGone, isOtherObject, isRefusal, type KubeClient } from '../kube/client.ts';
import { PODS, podPath, readItems } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import { Claims } from './claims.ts';
import { PodMap } from './fleet-map.ts';
import { Moves } from './moves.ts';
import { NewPlaces } from './new-places.ts';
import { PlacePosts } from './place-posts.ts';
import {
  JOINED,
  PLACE_LABEL,
  type PlacePod,
  readPlacePod,
  toMove,
  toNamespace,
  toPod,
  toPodName,
} from './pods.ts';

/** A client hears within 2 s that there is no engine. */
const WRITE_MS = 1500;
/** For the scheduler. */
const BIND_MS = 10_000;
const RETRY_AFTER_S = 5;
/** Until a sandbox has come from the snapshot store; a client that is asked to wait asks again. */
const ARRIVE_MS = 30_000;
const FORGET_BACK_OFF = { firstMs: 500, mostMs: 30_000, jitter: 0.25 };
/** With that back-off: some ten minutes. The host drops a place that nothing used after a minute, too. */
const FORGET_ATTEMPTS = 25;
/** Places that wait to be forgotten; beyond it the hosts do it alone. */
const MAX_FORGETTING = 1000;
const SWEEP_MS = 30_000;
/** A place without a host that is seen for longer has lost its gateway. */
const UNBOUND_MS = 60_000;

export type KubernetesOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  /** Namespace of clients without a tenant, and prefix of those of tenants. */
  readonly namespace: string;
  readonly log: Logger;
  /** How long a write may take. */
  readonly writeMs?: number;
  readonly sweepMs?: number;
  readonly unboundMs?: number;
  /** How long a host must be silent before what it was to take goes to another. */
  readonly lostMs?: number;
  /** How long requests wait for a host that takes a sandbox. */
  readonly takingMs?: number;
};

export class KubernetesCatalogue implements Catalogue {
  readonly #options: KubernetesOptions;
  readonly #map: PodMap;
  readonly #claims: Claims;
  readonly #moves: Moves;
  readonly #newPlaces: NewPlaces;
  readonly #stop = new AbortController();
  readonly #writeMs: number;
  readonly #placing = new Set<Promise<void>>();
  readonly #forgetting = new Map<string, Promise<void>>();
  /** When a sweep first saw a place without a host, by its uid. By our own clock: that of the engine may differ. */
  #unbound = new Map<string, number>();

  constructor(options: KubernetesOptions) {
    const { client, seal, log, lostMs, takingMs } = options;
    this.#options = options;
    this.#writeMs = options.writeMs ?? WRITE_MS;
    this.#map = new PodMap(client, seal, log, takingMs);
    this.#claims = new Claims(client, seal, this.#writeMs);
    const forget = (place: Place) => void this.forget(place);
    const timeoutMs = this.#writeMs;
    const posts = new PlacePosts({ client, timeoutMs });
    this.#moves = new Moves({ client, posts, seal, log, map: this.#map, forget, timeoutMs, lostMs });
    const refusedOf = (id: string) => this.#moves.refusedOf(id);
    this.#newPlaces = new NewPlaces({ posts, seal, log, map: this.#map, refusedOf });
  }

  async watch(signal: AbortSignal): Promise<FleetMap> {
    const timer = setInterval(() => this.#sweep(), this.#options.sweepMs ?? SWEEP_MS).unref();
    signal.addEventListener('abort', () => {
      clearInterval(timer);
      this.#stop.abort(new AppError('cancelled', 'the gateway is stopping'));
    });
    this.#map.onChange = (id) => {
      this.#moves.look(id);
      this.#newPlaces.look(id);
    };
    await this.#map.start(signal);
    return this.#map;
  }

  async place(request: PlaceRequest, requestSignal: AbortSignal): Promise<Place> {
    const placing = this.#place(request, AbortSignal.any([requestSignal, this.#stop.signal]));
    const done = placing.then(
      () => void this.#placing.delete(done),
      () => void this.#placing.delete(done),
    );
    this.#placing.add(done);
    return await placing;
  }

  async #place(request: PlaceRequest, signal: AbortSignal): Promise<Place> {
    const namespace = toNamespace(this.#options.namespace, request.tenant);
    const path = podPath(namespace);
    const body = toPod(request, namespace, this.#options.seal);
    const asked = { ...request, namespace };
    const made = await this.#options.client
      .request({ method: 'POST', path, body, timeoutMs: this.#writeMs })
      .catch((error: unknown) => {
        // Whether it was made is not known if there was no answer.
        if (isAppError(error)) void this.forget({ ...asked, uid: '' });
        throw explain(error, namespace);
      });
    const place = readPlacePod(made, this.#options.seal);
    if (place === undefined) throw new AppError('internal', 'the API server changed the pod of a place');
    try {
      const bound = this.#bound(place, signal);
      bound.catch(() => undefined);
      for (const claim of request.claims) await this.#claim(claim, place, signal);
      return await bound;
    } catch (error) {
      void this.forget(this.#map.placesOf(place.id).find(({ uid }) => uid === place.uid) ?? place);
      throw error instanceof ClaimTaken ? error : explain(error, namespace);
    }
  }

  async find(id: string, tenant: string | undefined, signal: AbortSignal): Promise<Place | undefined> {
    const { client, seal, namespace } = this.#options;
    const path = tenant === undefined ? PODS : podPath(toNamespace(namespace, tenant));
    const query = { fieldSelector: `metadata.name=${toPodName({ id })}`, labelSelector: PLACE_LABEL };
    const found = await client.request({ method: 'GET', path, query, signal, timeoutMs: this.#writeMs });
    return readItems(found).flatMap((pod) => readPlacePod(pod, seal) ?? [])[0];
  }

  async restore(
    { id, departure, tenant, vcpus, memoryMib }: Parameters<Catalogue['restore']>[0],
    signal: AbortSignal,
  ): Promise<void> {
    const namespace = toNamespace(this.#options.namespace, tenant);
    const move = toMove(departure);
    const wanted = { id, move, vcpus, memoryMib, not: this.#moves.refusedOf(id), isRestored: true };
    const body = toPod(wanted, namespace, this.#options.seal);
    await this.#options.client
      .request({ method: 'POST', path: podPath(namespace), body, timeoutMs: this.#writeMs })
      .catch((error: unknown) => {
        // 409: another request, or another gateway, was faster.
        if (!isRefusal(error, 409)) throw explain(error, namespace);
      });
    const later = (why: string): AppError => exhausted(`sandbox ${id} comes from the snapshot store; ${why}`);
    const test = (place: PlacePod | undefined): true | undefined => {
      if (place?.move !== move) return undefined;
      if (place.phase === 'Failed') throw later(`the host ${place.host} cannot take it`);
      if (place.host === undefined && place.unschedulable !== undefined)
        throw later(`no host of the fleet has room: ${place.unschedulable}`);
      return place.phase === 'Running' ? true : undefined;
    };
    const limit = AbortSignal.any([signal, this.#stop.signal, AbortSignal.timeout(ARRIVE_MS)]);
    await this.#map.until(id, test, limit).catch((error: unknown) => {
      throw isAppError(error) ? error : later('try again');
    });
  }

  async join({ namespace, uid, ...named }: Place, signal: AbortSignal): Promise<void> {
    const path = podPath(namespace, toPodName(named));
    const body = { metadata: { uid, annotations: { [JOINED]: 'true' } } };
    const changed = await this.#options.client
      .request({ method: 'PATCH', path, patch: 'merge', body, signal, timeoutMs: this.#writeMs })
      .catch((error: unknown) => {
        if (!isGone(error)) throw explain(error, namespace);
      });
    const joined = readPlacePod(changed, this.#options.seal);
    if (joined === undefined || joined.isDeleting) throw exhausted('the place was taken away');
  }

  async claim(claim: string, place: Place, signal: AbortSignal): Promise<boolean> {
    const acquiring = this.#claims.acquire(claim, place, signal);
    const holder = await acquiring.catch((error) => Promise.reject(explain(error, place.namespace)));
    if (holder !== undefined && holder.uid !== place.uid) throw new ClaimTaken(claim, holder);
    return holder === undefined;
  }

  async unclaim(claim: string, place: Place): Promise<void> {
    await this.#claims.release(claim, place);
  }

  async forget(place: Place, { unlessJoined }: Forgetting = { unlessJoined: false }): Promise<void> {
    const key = [place.namespace, toPodName(place), place.uid, place.host ?? '', unlessJoined].join(' ');
    const running = this.#forgetting.get(key);
    if (running !== undefined) return await running;
    if (this.#forgetting.size >= MAX_FORGETTING) return;
    const done = this.#forget(place, unlessJoined).finally(() => this.#forgetting.delete(key));
    this.#forgetting.set(key, done);
    await done;
  }

  /** Resolves when nothing is left to be forgotten. Once the watch has ended, each place is tried once. */
  async settled(): Promise<void> {
    await Promise.all(this.#placing);
    // Creates that ended just now give their places back in this turn.
    await setImmediate();
    await Promise.all(this.#forgetting.values());
  }

  async #forget(place: Place, unlessJoined: boolean): Promise<void> {
    const { signal } = this.#stop;
    for (let attempt = 1; attempt <= FORGET_ATTEMPTS; attempt++) {
      const known = this.#map.placesOf(place.id).find(({ uid }) => uid === place.uid);
      // A host may have begun to take it over.
      if (place.move !== undefined && place.host === undefined && isTakable(known)) return;
      const removing = unlessJoined ? this.#removeUnlessJoined(place) : this.#remove(place, known);
      if (await removing.catch(() => false)) return;
      // The gateway stops; a host, or another gateway, drops what nothing uses.
      if (signal.aborted) return;
      const waitMs = backOffMs(attempt, FORGET_BACK_OFF);
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Resolves with true when the pod is gone, or another request uses it. */
  async #removeUnlessJoined({ namespace, uid, ...named }: Place): Promise<boolean> {
    const { client, seal } = this.#options;
    const path = podPath(namespace, toPodName(named));
    const timeoutMs = this.#writeMs;
    try {
      const place = readPlacePod(await client.request({ method: 'GET', path, timeoutMs }), seal);
      if (place === undefined || place.uid !== uid || place.isJoined === true) return true;
      // It has changed if a request has joined meanwhile.
      const preconditions = { uid, resourceVersion: place.version };
      await client.request({ method: 'DELETE', path, body: { preconditions }, timeoutMs });
      return true;
    } catch (error) {
      return isRefusal(error, 404);
    }
  }

  /** Resolves with true when the pod is gone or marked; of a place without a host, only the gateway can free it. */
  async #remove({ namespace, uid, host, ...named }: Place, known: PlacePod | undefined): Promise<boolean> {
    const { client } = this.#options;
    const path = podPath(namespace, toPodName(named));
    const isHosted = known?.host !== undefined && this.#map.host(known.host) !== undefined;
    const isUnbound = host === undefined && !isHosted;
    let version = known?.version;
    try {
      if (isUnbound) {
        // With its version: the scheduler may bind it now.
        const metadata = {
          finalizers: null,
          ...(uid !== '' && { uid }),
          ...(version !== undefined && { resourceVersion: version }),
        };
        const changed = await client.request({
          ...{ method: 'PATCH', path, patch: 'merge', body: { metadata }, timeoutMs: this.#writeMs },
        });
        version = readPlacePod(changed, this.#options.seal)?.version;
      }
      const preconditions = {
        ...(uid !== '' && { uid }),
        ...(isUnbound && version !== undefined && { resourceVersion: version }),
      };
      await client.request({ method: 'DELETE', path, body: { preconditions }, timeoutMs: this.#writeMs });
      return true;
    } catch (error) {
      if (isRefusal(error, 404) || isOtherObject(error)) return true;
      // 409: another pod has its name by now, or it has changed.
      return isRefusal(error, 409) && (known === undefined || !isUnbound);
    }
  }

  async #claim(claim: string, place: PlacePod, signal: AbortSignal): Promise<void> {
    const holder = await this.#claims.acquire(claim, place, signal);
    if (holder === undefined) return;
    throw new ClaimTaken(claim, await this.#bound(holder, signal));
  }

  async #bound({ id, uid }: PlacePod, signal: AbortSignal): Promise<Place> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(BIND_MS)]);
    const test = (place: PlacePod | undefined): Place | undefined => {
      if (place?.uid !== uid) return undefined;
      if (place.isDeleting) throw exhausted('the place was taken away');
      if (place.unschedulable !== undefined && place.host === undefined)
        throw exhausted(`no host of the fleet has room: ${place.unschedulable}`);
      return place.host === undefined ? undefined : place;
    };
    return await this.#map.until(id, test, limit).catch((error: unknown) => {
      if (isAppError(error) || signal.aborted) throw error;
      throw exhausted(`the scheduler of the fleet named no host within ${BIND_MS / 1000} s`);
    });
  }

  /** Places that no host can end: their Node was removed from the cluster, or they never got one. */
  #sweep(): void {
    if (!this.#map.isCurrent) return;
    this.#moves.retry();
    this.#newPlaces.look();
    const { unboundMs = UNBOUND_MS } = this.#options;
    const now = performance.now();
    const unbound = new Map<string, number>();
    for (const place of this.#map.all()) {
      const { host, uid, isDeleting } = place;
      const sinceMs = this.#unbound.get(uid) ?? now;
      if (host === undefined) unbound.set(uid, sinceMs);
      const isOver =
        host === undefined
          ? isDeleting || now - sinceMs >= unboundMs
          : isDeleting && this.#map.host(host) === undefined;
      if (isOver) void this.forget({ ...place, host: undefined });
    }
    this.#unbound = unbound;
  }
}

function isTakable(place: PlacePod | undefined): boolean {
  return place?.host !== undefined && place.phase !== 'Failed' && !place.isDeleting;
}

function exhausted(message: string): AppError {
  return new AppError('exhausted', message, { retryAfterS: RETRY_AFTER_S });
}

function explain(error: unknown, namespace: string): unknown {
  if (isAppError(error))
    return error.code === 'upstream' ? exhausted(`no place can be found now: ${error.message}`) : error;
  if (isRefusal(error, 403) && /exceeded quota/i.test(error.message))
    return new AppError('forbidden', `the quota of the namespace ${namespace} is used up: ${error.message}`);
  if (isRefusal(error, 404))
    return new AppError(
      'forbidden',
      `the namespace ${namespace} does not exist; the operator must create it`,
    );
  if (isRefusal(error, 429, 500, 502, 503, 504))
    return exhausted(`no place can be found now: ${toError(error).message}`);
  const message = `the API server of the fleet refused a place: ${toError(error).message}`;
  return new AppError('upstream', message, { cause: error });
}
