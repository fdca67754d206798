// Places for sandboxes whose former ones were removed: on the hosts that have the sandboxes, or, for those that wait in
// the snapshot store, on others.
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import type { Host } from '../catalogue.ts';
import type { FleetSeal } from '../seal.ts';
import type { PodMap } from './fleet-map.ts';
import type { PlacePosts } from './place-posts.ts';
import { toPod } from './pods.ts';
import type { Unplaced } from './unplaced.ts';

/** A host that has just deleted a sandbox, or has a place of it again, says so by then. */
const SETTLE_MS = 1500;

type NewPlacesDeps = {
  readonly posts: PlacePosts;
  readonly seal: FleetSeal;
  readonly map: Pick<PodMap, 'isCurrent' | 'hosts' | 'placesOf'>;
  /** Hosts that could not take it. */
  readonly refusedOf: (id: string) => readonly string[];
  readonly settleMs?: number;
  readonly log: Logger;
};

/** Every gateway does this; the name of the pod makes it one. */
export class NewPlaces {
  readonly #deps: NewPlacesDeps;
  readonly #placing = new Set<string>();
  /** Since when they are seen without a place. */
  readonly #since = new Map<string, number>();
  /** The last attempt of each: the others of its namespace come first. */
  readonly #tried = new Map<string, number>();
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;

  constructor(deps: NewPlacesDeps) {
    this.#deps = deps;
  }

  /** After a change of hosts, or of the places of a sandbox; what failed is tried again. */
  look(id?: string): void {
    const { map, posts, settleMs = SETTLE_MS } = this.#deps;
    if (!map.isCurrent) return;
    const found = this.#findMissing(id);
    const now = performance.now();
    for (const each of found.toSorted((a, b) => this.#lastTry(a) - this.#lastTry(b))) {
      const { namespace } = each;
      if (this.#placing.has(each.id)) continue;
      const sinceMs = this.#since.get(each.id) ?? now;
      this.#since.set(each.id, sinceMs);
      const dueMs = Math.max(sinceMs + settleMs, posts.dueMs(namespace));
      if (dueMs > now) {
        this.#lookAt(dueMs);
        continue;
      }
      this.#placing.add(each.id);
      void this.#place(each).finally(() => this.#placing.delete(each.id));
    }
  }

  /** Named by a host, and without a place. */
  #findMissing(id: string | undefined): readonly Unplaced[] {
    const { map } = this.#deps;
    if (id !== undefined && map.placesOf(id).length > 0) {
      this.#since.delete(id);
      return [];
    }
    const isMeant = (each: Unplaced): boolean => id === undefined || each.id === id;
    const all = map
      .hosts()
      .flatMap((host) => host.unplaced.filter((each) => isMeant(each) && isToPlace(host, each)));
    const missing = all.filter((each) => map.placesOf(each.id).length === 0);
    if (id === undefined) {
      const named = new Set(missing.map((each) => each.id));
      for (const known of [this.#since, this.#tried])
        for (const each of known.keys()) if (!named.has(each)) known.delete(each);
    }
    return missing;
  }

  #lastTry({ id }: Unplaced): number {
    return this.#tried.get(id) ?? 0;
  }

  #lookAt(atMs: number): void {
    if (atMs >= this.#timerAtMs) return;
    clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    const look = (): void => {
      this.#timerAtMs = Number.POSITIVE_INFINITY;
      this.look();
    };
    this.#timer = setTimeout(look, Math.max(0, atMs - performance.now()) + 1).unref();
  }

  async #place({ id, namespace }: Unplaced): Promise<void> {
    const { posts, log } = this.#deps;
    const read = () => this.#read(id);
    try {
      if (await posts.post(read))
        log.info({ sandbox: id }, 'a sandbox whose place was removed has one again');
    } catch (error) {
      this.#lookAt(posts.dueMs(namespace));
      log.warn({ sandbox: id, reason: firstLine(error) }, 'a sandbox goes on without a place');
    }
  }

  #read(id: string) {
    const { seal, map, posts, refusedOf } = this.#deps;
    const host = map
      .hosts()
      .find((each) => each.unplaced.some((named) => named.id === id && isToPlace(each, named)));
    const found = host?.unplaced.find((each) => each.id === id);
    if (host === undefined || found === undefined || map.placesOf(id).length > 0) return undefined;
    const { namespace, vcpus, memoryMib, leaves } = found;
    if (posts.dueMs(namespace) > performance.now()) return undefined;
    this.#attempts += 1;
    this.#tried.set(id, this.#attempts);
    const where =
      leaves === undefined
        ? { on: host.name }
        : { move: leaves, not: [...new Set([host.name, ...refusedOf(id)])], isRestored: true };
    return { namespace, body: toPod({ id, vcpus, memoryMib, ...where }, namespace, seal) };
  }
}

/** A cordoned node gets no pod. */
function isToPlace({ isReady, isCordoned }: Host, { leaves }: Unplaced): boolean {
  return isReady && (leaves !== undefined || isCordoned !== true);
}
