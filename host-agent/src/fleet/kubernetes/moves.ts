// Sandboxes whose hosts are drained: each gets a second pod, which the scheduler places on another host. While it still
// runs, that host only fetches ahead what it has sent; the pod is opened when the sandbox waits in the snapshot store.
// Every gateway does this; the name of the pod makes it one.
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import type { Place } from '../catalogue.ts';
import { ignoreGone, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import type { PodMap } from './fleet-map.ts';
import type { PlacePosts } from './place-posts.ts';
import { ARRIVAL, NOT_TAKEN, type PlacePod, toArrival, toOpened, toPod, toPodName } from './pods.ts';

/** Hosts that could not take one are asked again after as many sweeps. */
const FORGIVEN_AFTER = 10;
const MAX_REFUSED = 10_000;
/** A host that has claimed a sandbox by then is known to the one that it leaves, which has removed its place. */
const LOST_MS = 10_000;
/** After a pause of its namespace each is looked at within it, so that no one is always the first. */
const SPREAD_MS = 1000;
const RETRY_MS = 1000;

type MovesDeps = {
  readonly client: Pick<KubeClient, 'request'>;
  readonly posts: PlacePosts;
  readonly seal: FleetSeal;
  readonly map: Pick<PodMap, 'isCurrent' | 'host' | 'placesOf' | 'all' | 'findUnplaced'>;
  readonly forget: (place: Place) => void;
  readonly timeoutMs: number;
  /** How long the engine has not heard from a host when what it has not taken is placed elsewhere. */
  readonly lostMs?: number | undefined;
  readonly log: Logger;
};

export class Moves {
  readonly #deps: MovesDeps;
  /** Hosts that could not take a sandbox, by its id. */
  readonly #refused = new Map<string, Set<string>>();
  readonly #placing = new Set<string>();
  /** Uids of pods. */
  readonly #patching = new Set<string>();
  readonly #patched = new Map<string, string>();
  /** Since when hosts that were chosen are not ready. By our own clock: that of the engine may differ. */
  readonly #silent = new Map<string, number>();
  readonly #timers = new Map<string, { readonly timer: NodeJS.Timeout; readonly atMs: number }>();
  #sweeps = 0;

  constructor(deps: MovesDeps) {
    this.#deps = deps;
  }

  /** After a change of its places; without an id, of any. */
  look(id?: string): void {
    for (const host of [...this.#silent.keys()])
      if (this.#deps.map.host(host)?.isReady === true) this.#silent.delete(host);
    if (id === undefined) for (const each of this.#moving()) this.#lookAt(each);
    else this.#lookAt(id);
  }

  #moving(): Set<string> {
    const all = [...this.#deps.map.all()];
    return new Set(
      all.flatMap(({ id, leaves, copied, move }) => ((leaves ?? copied ?? move) === undefined ? [] : [id])),
    );
  }

  /** Hosts that could not take it. */
  refusedOf(id: string): string[] {
    return [...(this.#refused.get(id) ?? [])].filter((name) => name !== '');
  }

  /** What failed is tried again. */
  retry(): void {
    this.#sweeps += 1;
    if (this.#sweeps % FORGIVEN_AFTER === 0 || this.#refused.size > MAX_REFUSED) this.#refused.clear();
    this.look();
  }

  #lookAt(id: string): void {
    const places = this.#deps.map.placesOf(id);
    const source = this.#findSource(places);
    for (const arrival of places) {
      const isOld =
        arrival.move !== undefined &&
        arrival.phase === 'Pending' &&
        source === undefined &&
        !arrival.isRestored;
      // What no host has taken is not needed once its sandbox stays, or has gone.
      const isForgotten = arrival.isAhead === true && arrival.move !== (source && moveOf(source));
      if (isForgotten && !arrival.isDeleting) this.#deps.forget(arrival);
      if (arrival.phase !== 'Failed' && !(isOld && arrival.host === undefined)) continue;
      if (arrival.move === undefined || arrival === source) continue;
      if (arrival.phase === 'Failed' && arrival.reason !== NOT_TAKEN) continue;
      const refused = this.#refused.get(id) ?? new Set();
      this.#refused.set(id, refused.add(arrival.host ?? ''));
      // The host ends nothing for it: it never had a sandbox.
      if (!arrival.isDeleting) this.#deps.forget(arrival);
    }
    for (const arrival of places) {
      const { host, move, phase } = arrival;
      if (move === undefined || host === undefined || phase !== 'Pending') continue;
      // Without the place that it comes from, the host may have claimed it.
      const named = this.#deps.map.findUnplaced(id);
      const isNamed = named?.isReady === true && named.host !== host;
      const hasOther =
        isNamed || places.some((each) => each !== arrival && !each.isDeleting && each.phase === 'Running');
      if (hasOther || arrival.isRestored) this.#assertHeard(arrival, host);
    }
    if (source === undefined) return;
    const arrival = places.find((each) => each.move === moveOf(source) && !each.isDeleting);
    if (arrival?.isAhead === true) this.#follow(source, arrival);
    if (isPlaced(source, places) || this.#placing.has(id)) return;
    const waitMs = this.#deps.posts.dueMs(source.namespace) - performance.now();
    if (waitMs > 0) {
      this.#lookLater(id, waitMs + Math.random() * SPREAD_MS);
      return;
    }
    this.#placing.add(id);
    void this.#place(id, source).finally(() => this.#placing.delete(id));
  }

  #findSource(places: readonly PlacePod[]): PlacePod | undefined {
    return places.find((each) => this.#isSource(each));
  }

  /** A host that is not heard of offers nothing soon: no capacity is kept for it. */
  #isSource({ leaves, copied, isDeleting, host = '' }: PlacePod): boolean {
    if (isDeleting) return false;
    return leaves !== undefined || (copied !== undefined && this.#deps.map.host(host)?.isReady === true);
  }

  /** Opens a place when its sandbox is offered; until then, tells the host that it leaves how far the other one is. */
  #follow(source: PlacePod, arrival: PlacePod): void {
    const { seal } = this.#deps;
    const { fetched: state, move = '', takesChanges = false } = arrival;
    if (source.leaves !== undefined) {
      this.#patch(arrival, toOpened(arrival, seal));
      return;
    }
    if (state === undefined) return;
    const text = toArrival({ move, state, takesChanges });
    if (source.arrival !== undefined && toArrival(source.arrival) === text) return;
    const annotations = { [ARRIVAL]: text };
    this.#patch(source, { metadata: { uid: source.uid, annotations } });
  }

  /** Once at a time; what fails is tried again after a second. */
  #patch(pod: PlacePod, body: object): void {
    const { client, timeoutMs, log } = this.#deps;
    const { id, namespace, uid, version = '' } = pod;
    // As it was read, it is changed once: our watch may be behind.
    const change = `${version} ${JSON.stringify(body)}`;
    if (this.#patching.has(uid) || this.#patched.get(uid) === change) return;
    this.#patching.add(uid);
    if (this.#patched.size >= MAX_REFUSED) this.#patched.clear();
    const path = podPath(namespace, toPodName(pod));
    const patched = client.request({ method: 'PATCH', path, patch: 'merge', body, timeoutMs });
    void patched
      .then(() => {
        this.#patched.set(uid, change);
        this.#lookLater(id, 0);
      })
      .catch((error: unknown) => {
        log.debug({ sandbox: id, reason: firstLine(error) }, 'a place of a move is not changed');
        this.#lookLater(id, RETRY_MS);
      })
      .finally(() => this.#patching.delete(uid));
  }

  /** A place whose host has ended before it took the sandbox is forgotten, and another host is chosen. */
  #assertHeard(arrival: PlacePod, host: string): void {
    const { map, lostMs = LOST_MS, log } = this.#deps;
    if (!map.isCurrent || map.host(host)?.isReady === true) return;
    const sinceMs = this.#silent.get(host) ?? performance.now();
    this.#silent.set(host, sinceMs);
    const leftMs = sinceMs + lostMs - performance.now();
    if (leftMs > 0) {
      this.#lookLater(arrival.id, leftMs);
      return;
    }
    const refused = this.#refused.get(arrival.id) ?? new Set();
    this.#refused.set(arrival.id, refused.add(host));
    if (this.#placing.has(arrival.id)) return;
    this.#placing.add(arrival.id);
    const done = (): void => {
      this.#placing.delete(arrival.id);
      this.#lookAt(arrival.id);
    };
    void this.#withdraw(arrival).then(
      () => {
        log.warn(
          { sandbox: arrival.id, host },
          'a host ended before it took a sandbox; another one is chosen',
        );
        done();
      },
      (error: unknown) => {
        this.#placing.delete(arrival.id);
        // It has changed, or the engine does not answer: its next change, or the next sweep, decides again.
        log.debug({ sandbox: arrival.id, host, reason: firstLine(error) }, 'a place is not withdrawn');
      },
    );
  }

  #lookLater(id: string, waitMs: number): void {
    const atMs = performance.now() + waitMs;
    const planned = this.#timers.get(id);
    if (planned !== undefined && planned.atMs <= atMs) return;
    clearTimeout(planned?.timer);
    const look = (): void => {
      this.#timers.delete(id);
      // Else the next sweep does it.
      if (this.#deps.map.isCurrent) this.#lookAt(id);
    };
    this.#timers.set(id, { atMs, timer: setTimeout(look, waitMs + 1).unref() });
  }

  /** Only as it was read: what its host has done since makes the first request fail. */
  async #withdraw({ namespace, uid, version: resourceVersion, ...named }: PlacePod): Promise<void> {
    const { client, timeoutMs } = this.#deps;
    const path = podPath(namespace, toPodName(named));
    const remove = (preconditions: object) =>
      client.request({
        ...{ method: 'DELETE', path, body: { gracePeriodSeconds: 0, preconditions }, timeoutMs },
      });
    await remove({ uid, resourceVersion });
    const body = { metadata: { uid, finalizers: null } };
    try {
      await client.request({ method: 'PATCH', path, patch: 'merge', body, timeoutMs });
      await remove({ uid });
    } catch (error) {
      ignoreGone(error);
    }
  }

  async #place(id: string, { namespace, host }: PlacePod): Promise<void> {
    const { posts, log } = this.#deps;
    try {
      if (await posts.post(() => this.#read(id)))
        log.info({ sandbox: id, host }, 'a sandbox of a drained host is placed again');
    } catch (error) {
      const reason = firstLine(error);
      log.warn({ sandbox: id, reason }, 'no place can be found for a sandbox of a drained host');
    }
    const waitMs = posts.dueMs(namespace) - performance.now();
    if (waitMs > 0) this.#lookLater(id, waitMs + Math.random() * SPREAD_MS);
  }

  #read(id: string) {
    const { map, seal } = this.#deps;
    const places = map.placesOf(id);
    const source = this.#findSource(places);
    if (source === undefined || isPlaced(source, places)) return undefined;
    const { namespace, host = '', vcpus, memoryMib } = source;
    const [move, isAhead] = [moveOf(source), source.leaves === undefined];
    const not = [...new Set([host, ...(this.#refused.get(id) ?? [])])].filter((name) => name !== '');
    return { namespace, body: toPod({ id, move, vcpus, memoryMib, not, isAhead }, namespace, seal) };
  }
}

function isPlaced(source: PlacePod, places: readonly PlacePod[]): boolean {
  return places.some(({ move }) => move === moveOf(source));
}

/** What its move is called, offered or not yet. */
function moveOf({ leaves, copied }: PlacePod): string | undefined {
  return leaves ?? copied;
}
