// Places for sandboxes whose former ones were removed, on the hosts that have the sandboxes.
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import type { PodMap } from './fleet-map.ts';
import { toPod } from './pods.ts';
import type { Unplaced } from './unplaced.ts';

type NewPlacesDeps = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly map: PodMap;
  readonly timeoutMs: number;
  readonly log: Logger;
};

/** Every gateway does this; the name of the pod makes it one. */
export class NewPlaces {
  readonly #deps: NewPlacesDeps;
  readonly #placing = new Set<string>();

  constructor(deps: NewPlacesDeps) {
    this.#deps = deps;
  }

  /** After a change of hosts, or of the places of a sandbox; what failed is tried again. */
  look(id?: string): void {
    const { map } = this.#deps;
    if (!map.isCurrent) return;
    for (const { name, unplaced, isReady } of map.hosts()) {
      for (const each of isReady ? unplaced : []) {
        if (id !== undefined && id !== each.id) continue;
        if (map.placesOf(each.id).length > 0 || this.#placing.has(each.id)) continue;
        this.#placing.add(each.id);
        void this.#place(name, each).finally(() => this.#placing.delete(each.id));
      }
    }
  }

  async #place(host: string, { id, namespace, vcpus, memoryMib }: Unplaced): Promise<void> {
    const { client, seal, timeoutMs, log } = this.#deps;
    const body = toPod({ id, vcpus, memoryMib, on: host }, namespace, seal);
    try {
      await client.request({ method: 'POST', path: podPath(namespace), body, timeoutMs });
      log.info({ sandbox: id, host }, 'a sandbox whose place was removed has one again');
    } catch (error) {
      // 409: another gateway was faster.
      if (isRefusal(error, 409)) return;
      const reason = firstLine(error);
      log.warn({ sandbox: id, host, reason }, 'a sandbox goes on without a place');
    }
  }
}
