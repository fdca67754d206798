// The map of the fleet: all places and hosts, kept in memory by two watches.
import type { Logger } from 'pino';
import type { FleetMap, Host } from '../catalogue.ts';
import type { KubeClient } from '../kube/client.ts';
import { NODES, PODS, readNode, readPod } from '../kube/objects.ts';
import { type Change, Watch } from '../kube/watch.ts';
import type { FleetSeal } from '../seal.ts';
import { readAnyPlace } from './foreign-pods.ts';
import { HOST_LABEL, NOT_TAKEN, PLACE_LABEL, type PlacePod, readHost, toPodName } from './pods.ts';

/** A Node that was deleted is made again by its host before that. */
const GONE_MS = 60_000;
const MAX_GONE = 10_000;

/** For the longest download. A host that takes longer holds neither a delete nor other requests. */
const TAKING_MS = 15 * 60_000;

export class PodMap implements FleetMap {
  readonly #seal: FleetSeal;
  readonly #pods: Watch<PlacePod>;
  readonly #nodes: Watch<Host>;
  /** By id: one, and a second where its sandbox arrives. */
  #places = new Map<string, readonly PlacePod[]>();
  /** A place came, changed or went; without one all may have, or a host is ready, or not any more. */
  onChange: (id?: string) => void = () => undefined;
  /** Of all places, by the uid of the pod: its name does not say it where others made it. */
  #ids = new Map<string, string>();
  #hosts = new Map<string, Host>();
  /** Places that went, with their host, and until when it may say that it still has the sandbox. */
  readonly #gone = new Map<string, { readonly host: string; readonly untilMs: number }>();
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Since when requests wait for the host of a place, by its uid. */
  readonly #taking = new Map<string, number>();
  readonly #takingMs: number;

  constructor(client: KubeClient, seal: FleetSeal, log: Logger, takingMs = TAKING_MS) {
    this.#takingMs = takingMs;
    this.#seal = seal;
    const toName = (object: unknown): string => readNode(object)?.metadata.name ?? '';
    this.#pods = new Watch({
      ...{ client, log, path: PODS, query: { labelSelector: PLACE_LABEL } },
      read: (object) => readAnyPlace(object, seal),
      onList: (places) => {
        const former = this.#places;
        this.#places = Map.groupBy(places, ({ id }) => id);
        for (const each of [...former.values()].flat()) if (!this.#places.has(each.id)) this.#noteGone(each);
        this.#ids = new Map(places.map(({ uid, id }) => [uid, id]));
        for (const uid of this.#taking.keys()) if (!this.#ids.has(uid)) this.#taking.delete(uid);
        for (const id of this.#waiting.keys()) this.#wake(id);
        this.onChange();
      },
      onChange: (change, object) => this.#changePod(change, object),
    });
    this.#nodes = new Watch({
      ...{ client, log, path: NODES, query: { labelSelector: HOST_LABEL } },
      read: (object) => readHost(object, seal),
      onList: (hosts) => {
        this.#hosts = new Map(hosts.map((host) => [host.name, host]));
        this.onChange();
      },
      onChange: (change, object) => {
        const host = change === 'put' ? readHost(object, seal) : undefined;
        const name = host?.name ?? toName(object);
        const before = this.#hosts.get(name);
        if (host !== undefined) this.#hosts.set(name, host);
        else this.#hosts.delete(name);
        // Each beat of each host changes its Node.
        const isSame =
          before?.isReady === host?.isReady &&
          before?.isCordoned === host?.isCordoned &&
          (before?.unplaced.length ?? 0) + (host?.unplaced.length ?? 0) === 0;
        if (!isSame) this.onChange();
      },
    });
  }

  /** Resolves after the first answer of the engine. */
  async start(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => void this.close(), { once: true });
    this.#pods.start();
    this.#nodes.start();
    await Promise.all([this.#pods.listed(), this.#nodes.listed()]);
  }

  async close(): Promise<void> {
    await Promise.all([this.#pods.close(), this.#nodes.close()]);
  }

  get isCurrent(): boolean {
    return this.#pods.isCurrent && this.#nodes.isCurrent;
  }

  get size(): number {
    return this.#places.size;
  }

  /** Where its requests go: to its host, until another one has it. */
  find(id: string): PlacePod | undefined {
    // One that is placed ahead has nothing yet.
    const all = this.placesOf(id).filter(({ isAhead }) => isAhead !== true);
    const isThere = ({ host, phase, leaves, move }: PlacePod): boolean =>
      host !== undefined && leaves === undefined && (move === undefined || phase === 'Running');
    const found = all.find(isThere);
    if (found !== undefined) return found;
    // No host has taken it yet: requests go to the one that it leaves.
    const arrival = all.find(({ move, leaves }) => move !== undefined && leaves === undefined);
    const source = all.find(({ leaves }) => leaves !== undefined);
    // A host that is not heard of takes nothing, or has: the one that it leaves knows.
    const isTaking =
      arrival?.host !== undefined && this.host(arrival.host)?.isReady === true && !this.#isLate(arrival);
    const place = source ?? this.#findNamed(id) ?? arrival ?? all[0];
    if (place === undefined) return undefined;
    const isPending = arrival?.phase === 'Pending';
    // A host that could not take it has nothing of it.
    const isRefused = arrival?.phase === 'Failed' && arrival.reason === NOT_TAKEN;
    const isAwaited = place === arrival && place.isRestored && (isPending || isRefused);
    const isMoving = place.host !== undefined && ((isTaking && isPending) || (isAwaited && isRefused));
    return { ...place, isMoving, isAwaited };
  }

  /** It takes the sandbox for so long that the host that it leaves decides, by the claim. */
  #isLate({ uid, phase }: PlacePod): boolean {
    if (phase !== 'Pending') return false;
    const now = performance.now();
    const sinceMs = this.#taking.get(uid) ?? now;
    this.#taking.set(uid, sinceMs);
    return now - sinceMs > this.#takingMs;
  }

  #findNamed(id: string): PlacePod | undefined {
    const found = this.findUnplaced(id);
    if (found === undefined) return undefined;
    const { leaves: _, ...named } = found;
    return { ...named, uid: '', phase: 'Running', isDeleting: false, isCounted: false, isRestored: false };
  }

  /** As a host names it that has it without a place: one that the engine hears from, if there is one. */
  findUnplaced(id: string): (Host['unplaced'][number] & { host: string; isReady: boolean }) | undefined {
    const named = [...this.#hosts.values()].flatMap(({ name: host, isReady, unplaced }) => {
      const found = unplaced.find((each) => each.id === id);
      return found === undefined ? [] : [{ ...found, host, isReady }];
    });
    return named.find(({ isReady }) => isReady) ?? named[0];
  }

  mayHave(id: string): boolean {
    const { host, untilMs = 0 } = this.#gone.get(id) ?? {};
    if (host !== undefined && !this.#hosts.has(host) && untilMs > performance.now()) return true;
    return [...this.#hosts.values()].some(({ hasMoreUnplaced }) => hasMoreUnplaced === true);
  }

  #noteGone({ id, host }: PlacePod): void {
    if (host === undefined) return;
    const now = performance.now();
    for (const [each, { untilMs }] of this.#gone) {
      if (untilMs > now && this.#gone.size < MAX_GONE) break;
      this.#gone.delete(each);
    }
    this.#gone.delete(id);
    this.#gone.set(id, { host, untilMs: now + GONE_MS });
  }

  async settle(id: string, waitMs: number): Promise<PlacePod | undefined> {
    return await this.until(id, (place) => place, AbortSignal.timeout(waitMs)).catch(() => undefined);
  }

  all(): Iterable<PlacePod> {
    return [...this.#places.values()].flat();
  }

  placesOf(id: string): readonly PlacePod[] {
    return this.#places.get(id) ?? [];
  }

  hosts(): readonly Host[] {
    return [...this.#hosts.values()];
  }

  host(name: string): Host | undefined {
    return this.#hosts.get(name);
  }

  /** Resolves with what `test` gives, at the latest change of that place for which it is defined. */
  async until<T>(
    id: string,
    test: (place: PlacePod | undefined) => T | undefined,
    signal: AbortSignal,
  ): Promise<T> {
    for (;;) {
      for (const place of this.placesOf(id)) {
        const found = test(place);
        if (found !== undefined) return found;
      }
      signal.throwIfAborted();
      await this.#changed(id, signal);
    }
  }

  #changed(id: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting);
      const done = (): void => {
        waiting.delete(done);
        if (waiting.size === 0) this.#waiting.delete(id);
        signal.removeEventListener('abort', done);
        resolve();
      };
      waiting.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  #changePod(change: Change, object: unknown): void {
    const { uid = '' } = readPod(object)?.metadata ?? {};
    const place = change === 'put' ? readAnyPlace(object, this.#seal) : undefined;
    const known = this.#ids.get(uid);
    // Also of a pod that is not a place any more, or another one: who may change a pod chooses its annotations.
    if (known !== undefined && known !== place?.id) this.#forget(uid, known);
    if (place === undefined) return;
    const others = this.placesOf(place.id).filter((each) => toPodName(each) !== toPodName(place));
    this.#places.set(place.id, [...others, place]);
    this.#ids.set(place.uid, place.id);
    this.#wake(place.id);
    this.onChange(place.id);
  }

  #forget(uid: string, id: string): void {
    this.#ids.delete(uid);
    this.#taking.delete(uid);
    const before = this.placesOf(id);
    const left = before.filter((each) => each.uid !== uid);
    if (left.length === before.length) return;
    if (left.length > 0) this.#places.set(id, left);
    else this.#places.delete(id);
    for (const each of before) if (each.uid === uid) this.#noteGone(each);
    this.#wake(id);
    this.onChange(id);
  }

  #wake(id: string): void {
    for (const done of [...(this.#waiting.get(id) ?? [])]) done();
  }
}
