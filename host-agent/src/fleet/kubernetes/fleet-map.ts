// The map of the fleet: all places and hosts, kept in memory by two watches.
import type { Logger } from 'pino';
import type { FleetMap, Host } from '../catalogue.ts';
import type { KubeClient } from '../kube/client.ts';
import { NODES, PODS, readNode, readPod } from '../kube/objects.ts';
import { type Change, Watch } from '../kube/watch.ts';
import type { FleetSeal } from '../seal.ts';
import { HOST_LABEL, PLACE_LABEL, type PlacePod, readHost, readPlacePod, toPodName } from './pods.ts';

export class PodMap implements FleetMap {
  readonly #seal: FleetSeal;
  readonly #pods: Watch;
  readonly #nodes: Watch;
  #places = new Map<string, PlacePod>();
  #hosts = new Map<string, Host>();
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(client: KubeClient, seal: FleetSeal, log: Logger) {
    this.#seal = seal;
    const toName = (object: unknown): string => readNode(object)?.metadata.name ?? '';
    this.#pods = new Watch({
      ...{ client, log, path: PODS, query: { labelSelector: PLACE_LABEL } },
      onList: (objects) => {
        const places = objects.flatMap((object) => readPlacePod(object, seal) ?? []);
        this.#places = new Map(places.map((place) => [place.id, place]));
        for (const id of this.#waiting.keys()) this.#wake(id);
      },
      onChange: (change, object) => this.#changePod(change, object),
    });
    this.#nodes = new Watch({
      ...{ client, log, path: NODES, query: { labelSelector: HOST_LABEL } },
      onList: (objects) => {
        const hosts = objects.flatMap((object) => readHost(object, seal) ?? []);
        this.#hosts = new Map(hosts.map((host) => [host.name, host]));
      },
      onChange: (change, object) => {
        const host = change === 'put' ? readHost(object, seal) : undefined;
        if (host !== undefined) this.#hosts.set(host.name, host);
        else this.#hosts.delete(toName(object));
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

  find(id: string): PlacePod | undefined {
    return this.#places.get(id);
  }

  async settle(id: string, waitMs: number): Promise<PlacePod | undefined> {
    return await this.until(id, (place) => place, AbortSignal.timeout(waitMs)).catch(() => undefined);
  }

  all(): Iterable<PlacePod> {
    return this.#places.values();
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
      const found = test(this.#places.get(id));
      if (found !== undefined) return found;
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
    const place = readPlacePod(object, this.#seal);
    if (change === 'put') {
      if (place === undefined) return;
      this.#places.set(place.id, place);
      this.#wake(place.id);
      return;
    }
    const { name = '', uid } = readPod(object)?.metadata ?? {};
    const id = name.replace('-', '_');
    const known = this.#places.get(id);
    if (known === undefined || known.uid !== uid || toPodName(id) !== name) return;
    this.#places.delete(id);
    this.#wake(id);
  }

  #wake(id: string): void {
    for (const done of [...(this.#waiting.get(id) ?? [])]) done();
  }
}
