// Sandboxes whose hosts are drained: each waits in the snapshot store, and gets a second pod, which the scheduler
// places on another host. Every gateway does this; the name of the pod makes it one.
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import type { Place } from '../catalogue.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import type { PodMap } from './fleet-map.ts';
import { type PlacePod, toPod } from './pods.ts';

/** Hosts that could not take one are asked again after as many sweeps. */
const FORGIVEN_AFTER = 10;
const MAX_REFUSED = 10_000;

type MovesDeps = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly map: PodMap;
  readonly forget: (place: Place) => void;
  readonly timeoutMs: number;
  readonly log: Logger;
};

export class Moves {
  readonly #deps: MovesDeps;
  /** Hosts that could not take a sandbox, by its id. */
  readonly #refused = new Map<string, Set<string>>();
  readonly #placing = new Set<string>();
  #sweeps = 0;

  constructor(deps: MovesDeps) {
    this.#deps = deps;
  }

  /** After a change of its places; without an id, of any. */
  look(id?: string): void {
    if (id === undefined) for (const each of this.#moving()) this.#lookAt(each);
    else this.#lookAt(id);
  }

  #moving(): Set<string> {
    const all = [...this.#deps.map.all()];
    return new Set(all.flatMap(({ id, leaves, move }) => ((leaves ?? move) === undefined ? [] : [id])));
  }

  /** What failed is tried again. */
  retry(): void {
    this.#sweeps += 1;
    if (this.#sweeps % FORGIVEN_AFTER === 0 || this.#refused.size > MAX_REFUSED) this.#refused.clear();
    this.look();
  }

  #lookAt(id: string): void {
    const places = this.#deps.map.placesOf(id);
    const source = places.find(({ leaves, isDeleting }) => leaves !== undefined && !isDeleting);
    for (const arrival of places) {
      const isOld = arrival.move !== undefined && arrival.phase === 'Pending' && source === undefined;
      // What no host has taken is not needed once its sandbox stays, or has gone.
      if (arrival.phase !== 'Failed' && !(isOld && arrival.host === undefined)) continue;
      if (arrival.move === undefined || arrival === source) continue;
      if (arrival.phase === 'Failed' && arrival.reason !== NOT_TAKEN) continue;
      const refused = this.#refused.get(id) ?? new Set();
      this.#refused.set(id, refused.add(arrival.host ?? ''));
      // The host ends nothing for it: it never had a sandbox.
      if (!arrival.isDeleting) this.#deps.forget(arrival);
    }
    if (source === undefined) return;
    if (places.some(({ move }) => move === source.leaves) || this.#placing.has(id)) return;
    this.#placing.add(id);
    void this.#place(source).finally(() => this.#placing.delete(id));
  }

  async #place({ id, leaves: move, namespace, host = '', vcpus, memoryMib }: PlacePod): Promise<void> {
    const { client, seal, timeoutMs, log } = this.#deps;
    const not = [...new Set([host, ...(this.#refused.get(id) ?? [])])].filter((name) => name !== '');
    const body = toPod({ id, move, vcpus, memoryMib, not }, namespace, seal);
    try {
      await client.request({ method: 'POST', path: podPath(namespace), body, timeoutMs });
      log.info({ sandbox: id, host }, 'a sandbox of a drained host is placed again');
    } catch (error) {
      // 409: another gateway was faster.
      if (isRefusal(error, 409)) return;
      log.warn(
        { sandbox: id, reason: firstLine(error) },
        'no place can be found for a sandbox of a drained host',
      );
    }
  }
}

/** Reason of an arrival whose host could not take its sandbox. */
export const NOT_TAKEN = 'NotTaken';
