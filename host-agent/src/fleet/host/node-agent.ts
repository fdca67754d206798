// The node agent of this host: it registers the host, admits creates whose place is here, and keeps pods and sandboxes
// in agreement. The registry of this host is the truth of what runs, the pods of what should.
import type { Logger } from 'pino';
import type { Placed, PlacedRequest, Placement } from '../../http/index.ts';
import { AppError, toError } from '../../lib/errors.ts';
import { type PlacePod, toMove } from '../kubernetes/pods.ts';
import { type PlaceHeader, readPlaces, type SealedPlace } from '../place-header.ts';
import type { FleetSeal } from '../seal.ts';
import { type Action, decide, OUTLIVED_MS, type PlaceRecord, UNUSED_MS } from './decide.ts';
import { HostPods, type HostPodsOptions } from './host-pods.ts';
import type { LocalSandboxes, PlaceRecords } from './local-sandboxes.ts';
import { assertFits, DEFAULTS, isFitting, withDefaults } from './place-size.ts';
import { Registration, type RegistrationOptions } from './registration.ts';
import { Takeovers } from './takeovers.ts';
import { Turns } from './turns.ts';
import { readUnplacedList } from './unplaced-post.ts';

const RETRY_AFTER_S = 5;
/** Until a pod that is gone is asked for again, if our watch does not tell. */
const GONE_MS = 1000;

export type { LocalSandboxes, PlaceRecords };

export type NodeAgentOptions = Omit<RegistrationOptions, 'log' | 'onNode' | 'onCordon' | 'readUnplaced'> & {
  readonly records: PlaceRecords;
  readonly sandboxes: LocalSandboxes;
  /** As gateways have it. */
  readonly namespace: string;
  readonly log: Logger;
  readonly unusedMs?: number;
};

export class NodeAgent implements Placement {
  readonly needsPlace = true;
  readonly #options: NodeAgentOptions;
  readonly #registration: Registration;
  readonly #pods: HostPods;
  readonly #seal: FleetSeal;
  /** Places that a create is using, or whose pod is being removed. */
  readonly #busy = new Set<string>();
  /** Places of creates that come later. */
  readonly #held = new Set<string>();
  readonly #turns: Turns;
  readonly #takeovers: Takeovers;
  #unsubscribe: () => void = () => undefined;
  #isStopped = false;

  constructor(options: NodeAgentOptions) {
    const { client, seal, name: node, log } = options;
    this.#options = options;
    this.#seal = seal;
    this.#registration = new Registration({
      ...options,
      readUnplaced: (nodeUid) => readUnplacedList(options.records, options.sandboxes, nodeUid),
      onNode: () => this.#podsChanged(),
      onCordon: (isCordoned) => options.sandboxes.setDraining(isCordoned),
    });
    const onChange: HostPodsOptions['onChange'] = (id) => this.#podsChanged(id);
    this.#pods = new HostPods({ client, seal, node, log, onChange });
    this.#takeovers = new Takeovers(this.#takeoverDeps);
    this.#turns = new Turns(
      (id) => this.#reconcile(id),
      (sandbox, error) =>
        log.warn({ sandbox, reason: toError(error).message }, 'cannot settle a place of the fleet'),
    );
  }

  get #takeoverDeps(): ConstructorParameters<typeof Takeovers>[0] {
    const { records, sandboxes, log } = this.#options;
    return {
      ...{ records, sandboxes, log, busy: this.#busy, pods: this.#pods, registration: this.#registration },
      decide: (id) => this.#decide(id),
      onDone: (id) => this.#turns.enqueue(id),
    };
  }

  /** Continues in the background until the API server knows this host. */
  start(): void {
    if (this.#isStopped) return;
    this.#unsubscribe = this.#options.sandboxes.subscribe((id) => this.#turns.enqueue(id));
    this.#registration.start();
    // The pods of a Node that was deleted mean nothing before its uid is known.
    void this.#registration.joined().then(() => {
      if (!this.#isStopped) this.#pods.start();
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unsubscribe();
    this.#turns.stop();
    this.#takeovers.stop();
    await Promise.all([this.#registration.close(), this.#pods.close()]);
    // They write to the registry, which closes next.
    await Promise.all([this.#turns.idle(), this.#takeovers.idle()]);
  }

  /** Resolves when the API server knows this host. */
  joined(): Promise<string> {
    return this.#registration.joined();
  }

  /** Whether the engine may hold this host for dead, so that it takes nothing new. */
  get isFenced(): boolean {
    return this.#registration.isFenced;
  }

  /** Cordons the Node of this host, or uncordons it. AppError, also when the API server refuses. */
  setCordoned(isCordoned: boolean): Promise<void> {
    return this.#registration.setCordoned(isCordoned);
  }

  async admit({ header, tenant, count, size }: PlacedRequest): Promise<Placed> {
    const { places, kind, namespace } = this.#read({ header, tenant, count });
    if (kind === 'held') return this.#admitHeld(places);
    if (this.#registration.isFenced)
      throw new AppError(
        'exhausted',
        'this host cannot reach the API server of the fleet, which may hold it for dead',
        {
          retryAfterS: RETRY_AFTER_S,
        },
      );
    const taken = places.map(({ id }) => id).find((id) => this.#busy.has(id) || this.#isUsed(id));
    if (taken !== undefined) throw new AppError('conflict', `the place ${taken} is used already`);
    for (const { id } of places) this.#busy.add(id);
    const release = (): void => {
      for (const { id } of places) {
        this.#busy.delete(id);
        this.#turns.enqueue(id);
      }
    };
    try {
      const pods = await Promise.all(places.map((place) => this.#pods.awaitPlace(place, namespace)));
      for (const pod of pods) assertFits(pod, withDefaults(size));
      for (const pod of pods) {
        const { id, uid } = pod;
        await this.#options.records.put(id, { namespace, uid, nodeUid: this.#registration.nodeOf(pod) });
      }
    } catch (error) {
      release();
      throw error;
    }
    return { ids: places.map(({ id }) => id), defaults: DEFAULTS, [Symbol.dispose]: release };
  }

  hold({ header, tenant, count }: Omit<PlacedRequest, 'size'>): Disposable {
    const ids = this.#read({ header, tenant, count }).places.map(({ id }) => id);
    const taken = ids.find((id) => this.#held.has(id) || this.#busy.has(id) || this.#isUsed(id));
    if (taken !== undefined) throw new AppError('conflict', `the place ${taken} is used already`);
    for (const id of ids) this.#held.add(id);
    const release = (): void => {
      for (const id of ids) if (this.#held.delete(id)) this.#turns.enqueue(id);
    };
    return { [Symbol.dispose]: release };
  }

  /** One that is held has the record of a create that failed, and is tried again. */
  #isUsed(id: string): boolean {
    const { records, sandboxes } = this.#options;
    return sandboxes.stateOf(id) !== undefined || (records.get(id) !== undefined && !this.#held.has(id));
  }

  #read(request: Omit<PlacedRequest, 'size'>): PlaceHeader {
    return readPlaces(request, { seal: this.#seal, base: this.#options.namespace });
  }

  /** Another place of the fleet has the name of the request: the answer is about its sandbox, or a conflict. */
  #admitHeld(places: readonly SealedPlace[]): Placed {
    const { records, sandboxes } = this.#options;
    const isThere = ({ id, uid }: SealedPlace): boolean =>
      records.get(id)?.uid === uid && !this.#busy.has(id) && sandboxes.stateOf(id) !== undefined;
    if (!places.every(isThere))
      throw new AppError('exhausted', 'a sandbox with this name is being made, or ends; try again', {
        retryAfterS: 1,
      });
    return {
      ids: places.map(({ id }) => id),
      ...{ onlyExisting: true, defaults: DEFAULTS },
      [Symbol.dispose]: () => undefined,
    };
  }

  #podsChanged(id?: string): void {
    const known = () => [
      ...this.#options.records.all().map(({ id }) => id),
      ...this.#options.sandboxes.prefetched(),
    ];
    const all = id === undefined ? new Set([...this.#pods.ids(), ...known()]) : [id];
    for (const each of all) this.#turns.enqueue(each);
  }

  async #reconcile(id: string): Promise<void> {
    // Without the API server's list nothing is ended.
    if (!this.#pods.isListed) return;
    const isUnlisted = (): boolean => this.#options.records.get(id)?.isUnlisted === true;
    const wasUnlisted = isUnlisted();
    for (const pod of this.#pods.findOver(id, this.#uidOf(id))) await this.#pods.remove(pod);
    await this.#takeovers.follow(id);
    await this.#carryOut(id, this.#decide(id));
    if (wasUnlisted || isUnlisted()) this.#registration.noteUnplaced();
  }

  #decide(id: string): Action {
    const found = this.#options.sandboxes.stateOf(id);
    const { unusedMs = UNUSED_MS } = this.#options;
    const pod = this.#pods.find(id, this.#uidOf(id));
    return decide({
      // What was refused once is not this host's, though its watch is behind.
      pod: pod && this.#takeovers.isRefused(pod.uid) ? { ...pod, phase: 'Failed' } : pod,
      record: this.#options.records.get(id),
      sandbox: found && (found.state === 'failed' ? 'failed' : 'running'),
      // A place that is taken away is of no use to what comes later.
      isBusy: this.#busy.has(id) || (this.#held.has(id) && pod?.isDeleting !== true),
      isArriving: this.#options.sandboxes.isArriving(id),
      isDraining: pod?.isEvicted === true && this.#options.sandboxes.isDraining(),
      ...this.#movesOf(id),
      knownMs: this.#pods.knownMs(id, this.#uidOf(id)) * (UNUSED_MS / unusedMs),
      nodeUid: this.#registration.nodeUid ?? '',
      nodeKnownMs: this.#registration.nodeKnownMs * (OUTLIVED_MS / unusedMs),
    });
  }

  #uidOf(id: string): string | undefined {
    return this.#options.records.get(id)?.uid;
  }

  #movesOf(id: string): { readonly leaves: string | undefined; readonly copied: string | undefined } {
    const { sandboxes } = this.#options;
    const name = (departure: string | undefined) => departure && toMove(departure);
    return { leaves: name(sandboxes.departureOf(id)), copied: name(sandboxes.copiedOf(id)) };
  }

  async #carryOut(id: string, action: Action): Promise<void> {
    const { records, sandboxes, log, unusedMs = UNUSED_MS } = this.#options;
    const pod = this.#pods.find(id, this.#uidOf(id));
    switch (action) {
      case 'nothing':
        return;
      case 'wait':
        if (!this.#busy.has(id) && !this.#held.has(id)) this.#turns.later(id, this.#waitMs(id, unusedMs));
        return;
      case 'renew-record': {
        const { nodeUid } = this.#registration;
        // Else a list that comes late would end what lost its place with the former Node.
        if (!pod || !(await this.#pods.isThere(pod))) return this.#turns.later(id, GONE_MS);
        const record = records.get(id);
        if (record?.uid === pod.uid && nodeUid !== undefined) await records.put(id, { ...record, nodeUid });
        return;
      }
      case 'mark-running':
        if (pod) await this.#pods.setPhase(pod, 'Running', '', '');
        return;
      case 'prefetch':
        return this.#takeovers.enqueueAhead(id);
      case 'take-over':
      case 'finish-arrival':
        return this.#takeovers.enqueue(id);
      case 'settle-record': {
        const { isArrival: _, ...settled } = records.get(id) ?? {};
        if ('uid' in settled) await records.put(id, settled as PlaceRecord);
        return;
      }
      case 'mark-leaving':
        if (pod) await this.#pods.setLeaving(pod, this.#movesOf(id));
        return;
      case 'mark-failed':
        if (pod) await this.#pods.setPhase(pod, 'Failed', 'VmExited', sandboxes.stateOf(id)?.reason ?? '');
        return;
      case 'mark-lost':
        log.error({ sandbox: id }, 'the fleet has a sandbox on this host that is not in its registry');
        if (pod) await this.#pods.setPhase(pod, 'Failed', 'Lost', 'its host has no record of it');
        return;
      case 'remove-pod':
        await this.#removePod(id, pod);
        return;
      case 'end-sandbox':
        // With a Node all its pods go, often before this host knows of it. So it is with evictions, and a cordon.
        if (!(await this.#registration.confirmNode()) || this.#decide(id) !== action)
          return this.#turns.enqueue(id);
        log.info({ sandbox: id }, 'the fleet deleted a sandbox of this host');
        await sandboxes.delete(id);
        this.#turns.enqueue(id);
        return;
      case 'end-shrunk':
        log.warn({ sandbox: id }, 'the requests of the pod of a sandbox were lowered: the sandbox ends');
        await sandboxes.delete(id);
        this.#turns.enqueue(id);
        return;
      case 'drop-record':
        await records.remove(id);
        this.#turns.enqueue(id);
        return;
      case 'unlist': {
        log.warn({ sandbox: id }, 'no client deleted the place that is gone; the fleet is asked for another');
        const record = records.get(id);
        if (record) await records.put(id, { ...record, uid: '', isUnlisted: true });
        // Else gateways would not find it for a moment.
        await this.#registration.postUnplaced();
        if (pod) await this.#pods.remove(pod);
        return;
      }
      case 'adopt-place':
        if (pod) await this.#adopt(id, pod);
    }
  }

  /** The sandbox is here; its place was made again. */
  async #adopt(id: string, pod: PlacePod): Promise<void> {
    const { records, sandboxes } = this.#options;
    const { namespace, uid } = pod;
    const size = sandboxes.sizeOf(id);
    if (size === undefined || namespace !== records.get(id)?.namespace || !isFitting(pod, size)) {
      await this.#removePod(id, pod);
      return;
    }
    // Until it is seen running no client deletes it by its pod.
    await records.put(id, { namespace, uid, nodeUid: this.#registration.nodeUid ?? '', isArrival: true });
    this.#turns.enqueue(id);
  }

  /** Until a place is not waited for any more, or has outlived its Node. */
  #waitMs(id: string, unusedMs: number): number {
    const isUsed = this.#options.records.get(id) !== undefined;
    const waitedMs = isUsed ? this.#registration.nodeKnownMs : this.#pods.knownMs(id, this.#uidOf(id));
    return Math.max(100, unusedMs - waitedMs);
  }

  /** Meanwhile no create can use the place. */
  async #removePod(id: string, pod: PlacePod | undefined): Promise<void> {
    const { records } = this.#options;
    this.#busy.add(id);
    try {
      if (pod) await this.#pods.remove(pod);
      if (records.get(id)?.uid === pod?.uid) await records.remove(id);
    } finally {
      this.#busy.delete(id);
    }
  }
}
