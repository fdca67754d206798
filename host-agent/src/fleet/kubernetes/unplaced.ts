// Sandboxes that go on at a host though their place is gone, as its Node names them. Gateways reach them there, and make
// each a place again.
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import { isId } from '../../lib/ids.ts';
import type { Place } from '../catalogue.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import type { PodMap } from './fleet-map.ts';
import { toPod } from './pods.ts';

const UNPLACED = 'sandboxd.dev/unplaced';
const UNPLACED_SEAL = 'sandboxd.dev/unplaced-seal';
/** An annotation is short; the others follow when these have places. */
const MAX_NAMED = 200;

export type Unplaced = Pick<Place, 'id' | 'namespace' | 'vcpus' | 'memoryMib'>;

export function writeUnplaced(all: readonly Unplaced[]): string {
  const named = all.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, MAX_NAMED);
  return named
    .map(({ id, namespace, ...size }) => `${id}=${namespace}/${size.vcpus}x${size.memoryMib}`)
    .join();
}

export function toUnplacedAnnotations(node: string, text: string, seal: FleetSeal): Record<string, string> {
  return { [UNPLACED]: text, [UNPLACED_SEAL]: seal.make('unplaced', node, text) };
}

export function readUnplacedText(annotations: Readonly<Record<string, string>>): string {
  return annotations[UNPLACED] ?? '';
}

/** None of a node whose annotations no host wrote. */
export function readUnplaced(
  node: string,
  annotations: Readonly<Record<string, string>>,
  seal: FleetSeal,
): readonly Unplaced[] {
  const text = readUnplacedText(annotations);
  if (text === '' || !seal.isOf(annotations[UNPLACED_SEAL] ?? '', 'unplaced', node, text)) return [];
  return text.split(',').flatMap((each) => {
    const [, id = '', namespace = '', cpus, mib] = /^(\w+)=([a-z0-9-]+)\/(\d+)x(\d+)$/.exec(each) ?? [];
    const [vcpus, memoryMib] = [Number(cpus), Number(mib)];
    const isValid = isId('sbx', id) && vcpus >= 1 && vcpus <= MAX_VCPUS && memoryMib <= MAX_MEMORY_MIB;
    return isValid ? [{ id, namespace, vcpus, memoryMib }] : [];
  });
}

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
