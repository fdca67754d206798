// Places for sandboxes whose former ones were removed: on the hosts that have the sandboxes, or, for those that wait in
// the snapshot store, on others.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { backOffMs } from '../../lib/back-off.ts';
import { firstLine } from '../../lib/errors.ts';
import type { Host } from '../catalogue.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import type { PodMap } from './fleet-map.ts';
import { toPod } from './pods.ts';
import type { Unplaced } from './unplaced.ts';

/** They share the connections of creates. */
const CONCURRENCY = 4;
/** Of a namespace whose place was refused. */
const BACK_OFF = { firstMs: 500, mostMs: 30_000, jitter: 0.25 };
/** A host that has just deleted a sandbox, or has a place of it again, says so by then. */
const SETTLE_MS = 1500;

type NewPlacesDeps = {
  readonly client: Pick<KubeClient, 'request'>;
  readonly seal: FleetSeal;
  readonly map: Pick<PodMap, 'isCurrent' | 'hosts' | 'placesOf'>;
  /** Hosts that could not take it. */
  readonly refusedOf: (id: string) => readonly string[];
  readonly timeoutMs: number;
  readonly settleMs?: number;
  readonly log: Logger;
};

type Pause = { readonly failures: number; readonly untilMs: number };

/** Every gateway does this; the name of the pod makes it one. */
export class NewPlaces {
  readonly #deps: NewPlacesDeps;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  readonly #placing = new Set<string>();
  /** Since when they are seen without a place. */
  readonly #since = new Map<string, number>();
  /** The last attempt of each: the others of its namespace come first. */
  readonly #tried = new Map<string, number>();
  readonly #pauses = new Map<string, Pause>();
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;

  constructor(deps: NewPlacesDeps) {
    this.#deps = deps;
  }

  /** After a change of hosts, or of the places of a sandbox; what failed is tried again. */
  look(id?: string): void {
    const { map, settleMs = SETTLE_MS } = this.#deps;
    if (!map.isCurrent) return;
    const found = this.#findMissing(id);
    const now = performance.now();
    for (const each of found.toSorted((a, b) => this.#lastTry(a) - this.#lastTry(b))) {
      const { namespace } = each;
      if (this.#placing.has(each.id)) continue;
      const sinceMs = this.#since.get(each.id) ?? now;
      this.#since.set(each.id, sinceMs);
      const dueMs = Math.max(sinceMs + settleMs, this.#pauses.get(namespace)?.untilMs ?? 0);
      if (dueMs > now) {
        this.#lookAt(dueMs);
        continue;
      }
      this.#placing.add(each.id);
      void this.#queue.add(() => this.#place(each.id)).finally(() => this.#placing.delete(each.id));
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

  /** As things are when its turn comes. */
  async #place(id: string): Promise<void> {
    const { client, seal, map, refusedOf, timeoutMs, log } = this.#deps;
    const host = map
      .hosts()
      .find((each) => each.unplaced.some((named) => named.id === id && isToPlace(each, named)));
    const found = host?.unplaced.find((each) => each.id === id);
    if (host === undefined || found === undefined || map.placesOf(id).length > 0) return;
    const { namespace, vcpus, memoryMib, leaves } = found;
    const { failures = 0, untilMs = 0 } = this.#pauses.get(namespace) ?? {};
    if (untilMs > performance.now()) return;
    this.#attempts += 1;
    this.#tried.set(id, this.#attempts);
    const where =
      leaves === undefined
        ? { on: host.name }
        : { move: leaves, not: [...new Set([host.name, ...refusedOf(id)])], isRestored: true };
    const body = toPod({ id, vcpus, memoryMib, ...where }, namespace, seal);
    try {
      await client.request({ method: 'POST', path: podPath(namespace), body, timeoutMs });
      this.#pauses.delete(namespace);
      log.info({ sandbox: id, host: host.name }, 'a sandbox whose place was removed has one again');
    } catch (error) {
      // 409: another gateway was faster.
      if (isRefusal(error, 409)) return;
      const waitMs = backOffMs(failures + 1, BACK_OFF);
      this.#pauses.set(namespace, { failures: failures + 1, untilMs: performance.now() + waitMs });
      this.#lookAt(performance.now() + waitMs);
      log.warn(
        { sandbox: id, host: host.name, reason: firstLine(error) },
        'a sandbox goes on without a place',
      );
    }
  }
}

/** A cordoned node gets no pod. */
function isToPlace({ isReady, isCordoned }: Host, { leaves }: Unplaced): boolean {
  return isReady && (leaves !== undefined || isCordoned !== true);
}
