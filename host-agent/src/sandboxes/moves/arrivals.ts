// Paused sandboxes that this host takes over from the snapshot store: their files are fetched first, and the claim that
// makes one this host's comes last, so that every failure before it leaves it where it was.

import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { Owner } from '../../keys/index.ts';
import { AppError, firstLine } from '../../lib/errors.ts';
import { readBootId } from '../../lib/proc.ts';
import { everyOne } from '../../lib/wait.ts';
import { needsAuthority } from '../../network/authority/index.ts';
import { diskBytesOf, type StoreManifest } from '../../snapshot-store/index.ts';
import type { Table } from '../../store/store.ts';
import { asNoSpace } from '../admission.ts';
import { noSandbox, type SandboxRecord } from '../record.ts';
import { sandboxPaths } from '../resources/files.ts';
import { adoptPaused } from '../resources/index.ts';
import type { ResourceContext, SandboxContext } from '../resources/resource.ts';
import { Sandbox } from '../sandbox.ts';
import { pausedDir } from '../saved/paused.ts';
import { heldPolicyOf } from '../secret-hosts.ts';
import { storedBytesIn } from '../sleep/stored.ts';
import { RetryQueue } from '../stored/retry-queue.ts';
import type { SharedDeps } from '../stored/shared.ts';
import type { ParkedSandbox } from '../types.ts';
import { fetchParked } from './fetch-parked.ts';
import { type ArrivalRecord, findOffer, type Offer } from './find-offer.ts';
import { parkedId, toArrivedRecord, toOwner } from './parked.ts';
import type { AssertFits, Prefetched, Prefetches } from './prefetches.ts';

/** Of VMMs that never were on this host: no engine has this name, so that nothing is ended for it. */
const NO_ENGINE = 'another host';
const SETTLE_MS = 10_000;
/** Whose work on the same sandbox a caller waits for, before it shares one. */
const MAX_OTHERS = 4;
const MAX_AT_ONCE = 64;

export type ArrivalsDeps = {
  readonly context: ResourceContext;
  readonly shared: SharedDeps;
  readonly records: Table<ArrivalRecord>;
  readonly find: (id: string) => Sandbox | undefined;
  readonly reserveName: (owner: Owner | undefined, name: string | undefined) => Disposable;
  /** AppError forbidden. */
  readonly admitPause: (owner: Owner | undefined) => Disposable;
  /** AppError exhausted while this host takes nothing new. */
  readonly assertOpen: () => void;
  readonly register: (sandbox: Sandbox) => void;
  readonly prefetches: Pick<Prefetches, 'take' | 'departureOf'>;
  /** What an earlier daemon claimed is here. */
  readonly onFinished: (sandbox: Sandbox) => void;
  readonly track: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly log: Logger;
};

/** `wasRunning`: on the host that it left. */
export type Arrived = { readonly sandbox: Sandbox; readonly wasRunning: boolean };

export type ArrivalConditions = {
  /** Only what this host has claimed already. */
  readonly onlyOwn?: boolean;
  /** Called before the fetch and before the claim, which does not follow if it throws. */
  readonly assertFits?: AssertFits | undefined;
};

export class Arrivals {
  readonly #deps: ArrivalsDeps;
  readonly #running = new Map<string, Promise<Arrived>>();

  /** Of earlier daemons. */
  readonly #unfinished: RetryQueue;

  constructor(deps: ArrivalsDeps) {
    this.#deps = deps;
    this.#unfinished = new RetryQueue({
      concurrency: 2,
      work: async (id) => {
        if (!this.isArriving(id)) return;
        try {
          const { sandbox } = await this.takeOver(id, () => true, { onlyOwn: true });
          deps.onFinished(sandbox);
        } catch (error) {
          // Else nothing of it is this host's.
          if (this.isArriving(id)) throw error;
        }
      },
      onFailure: (sandbox, error) =>
        deps.log.warn({ sandbox, reason: firstLine(error) }, 'cannot finish the arrival of a sandbox yet'),
    });
  }

  /** Finishes what an earlier daemon claimed, and could not record. */
  start(): void {
    const { records, find } = this.#deps;
    for (const { id, record } of records.all()) {
      if (find(id) !== undefined) void this.#settle(id, record);
      else this.#unfinished.add(id);
    }
  }

  async stop(): Promise<void> {
    await this.#unfinished.stop();
  }

  /** Whether this host has claimed it, or may have, and has no sandbox of it yet. */
  isArriving(id: string): boolean {
    return this.#deps.records.get(id) !== undefined && this.#deps.find(id) === undefined;
  }

  /**
   * Makes it one of this host, paused. Callers at the same time share one; it goes on when they leave. AppError
   * not_found if the store does not offer it, conflict if it does not fit this host or another took it, forbidden,
   * exhausted, `upstream`.
   */
  async takeOver(
    id: string,
    isVisible: (owner: Owner | undefined) => boolean,
    conditions: ArrivalConditions = {},
  ): Promise<Arrived> {
    const { track, find } = this.#deps;
    let work = this.#running.get(id);
    // What another caller may not see can be this one's.
    for (let others = 0; work !== undefined && others < MAX_OTHERS; others++) {
      const arrived = await work.catch(() => undefined);
      if (arrived !== undefined && isVisible(arrived.sandbox.record.owner)) return arrived;
      work = this.#running.get(id);
    }
    // Ids come from clients. The answer of another caller's work, who may see less, is not this one's.
    if (work !== undefined || this.#running.size >= MAX_AT_ONCE)
      throw new AppError('exhausted', 'many sandboxes arrive, or are looked for; try again', {
        retryAfterS: 2,
      });
    const own = track(async (signal) => {
      const offer = await findOffer(id, this.#deps, signal, conditions.onlyOwn);
      if (offer === undefined || !isVisible(toOwner(offer.parked.record.owner))) throw noSandbox(id);
      const sandbox = find(id) ?? (await this.#takeOver(id, offer, signal, conditions));
      return { sandbox, wasRunning: offer.parked.wasRunning };
    }).finally(() => this.#running.delete(id));
    this.#running.set(id, own);
    return await own;
  }

  /** What the store offers. AppError not_found, upstream. */
  async describe(
    id: string,
    isVisible: (owner: Owner | undefined) => boolean,
    signal: AbortSignal,
  ): Promise<ParkedSandbox> {
    const offer = await findOffer(id, this.#deps, signal);
    const owner = toOwner(offer?.parked.record.owner);
    if (offer === undefined || !isVisible(owner)) throw noSandbox(id);
    const { vcpus, memoryMib } = offer.parked.archive.options;
    return { departure: offer.departure, tenant: owner?.tenant, vcpus, memoryMib };
  }

  async #takeOver(
    id: string,
    { manifest, parked, departure, isOwn }: Offer,
    signal: AbortSignal,
    { assertFits }: ArrivalConditions,
  ): Promise<Sandbox> {
    const { context, shared, records, prefetches, track, log } = this.#deps;
    const startedAt = performance.now();
    if (!isOwn) this.#deps.assertOpen();
    const resolved = await shared.resolve(parked.archive, signal);
    const record = toArrivedRecord(parked, resolved);
    const { vcpus, memoryMib } = record.options;
    // What is this host's by its claim comes whatever the place is.
    const assertPlace = (): void => (isOwn ? undefined : assertFits?.({ vcpus, memoryMib }));
    assertPlace();
    using _name = this.#deps.reserveName(record.owner, record.metadata?.name);
    using _quota = isOwn ? undefined : this.#deps.admitPause(record.owner);
    const arrival = this.#arrivalFor(id, departure);
    const { token } = arrival;
    const paths = sandboxPaths(context.directories, id);
    let isClaimed = isOwn;
    let isAsked = false;
    try {
      await using prefetched = await prefetches.take(id, departure);
      using _space = await shared.admission.reserve({
        ...{ memoryMib: [], areCopies: false, diskBytes: missingBytes(manifest, prefetched?.content) },
      });
      await records.put(id, arrival);
      await rm(paths.dir, { recursive: true, force: true });
      const { rootfs } = record.options;
      const { store } = shared;
      const input = { paths, manifest, parked, rootfs, store, prefetched };
      const fetching = fetchParked(input, signal);
      await everyOne([fetching, records.flush()]);
      const bytes = await fetching;
      const fetchedMs = Math.round(performance.now() - startedAt);
      context.faults.reach('arrival.fetched');
      signal.throwIfAborted();
      assertPlace();
      isAsked = true;
      await records.put(id, { ...arrival, isAsked });
      await records.flush();
      if (!(await shared.store.parked.claim(parkedId(id, departure), token)))
        throw new AppError('conflict', `sandbox ${id} was taken by another host, or stays where it was`);
      isClaimed = true;
      context.faults.reach('arrival.claimed');
      const sandbox = await this.#enter(id, record);
      const durationMs = Math.round(performance.now() - startedAt);
      log.info({ sandbox: id, bytes, fetchedMs, durationMs }, 'a sandbox of another host is here');
      // It runs on meanwhile, where it ran.
      void track(() => this.#settle(id, arrival));
      return sandbox;
    } catch (error) {
      // What is claimed stays, whatever fails: the next start, or the next request, goes on from the store.
      if (!isClaimed) {
        await rm(paths.dir, { recursive: true, force: true });
        await rm(paths.socketDir, { recursive: true, force: true });
        if (!(await this.#mayBeClaimed(id, arrival, isAsked))) await records.remove(id);
      }
      signal.throwIfAborted();
      throw asNoSpace(error, 'fetch the sandbox', 'fetch') ?? error;
    }
  }

  /** It is here: what is in the store is not needed any more. Never rejects; the next start tries again. */
  async #settle(id: string, { departure }: ArrivalRecord): Promise<void> {
    const { shared, records, log } = this.#deps;
    try {
      await shared.store.removeManifest(parkedId(id, departure), AbortSignal.timeout(SETTLE_MS));
      // It may have left, and be on its way back.
      if (records.get(id)?.departure === departure) await records.remove(id);
    } catch (error) {
      log.warn({ sandbox: id, reason: firstLine(error) }, 'a sandbox that arrived stays in the store, too');
    }
  }

  #arrivalFor(id: string, departure: string): ArrivalRecord {
    const own = this.#deps.records.get(id);
    return own?.departure === departure ? own : { departure, token: randomUUID() };
  }

  /** A claim whose answer is not known may have been written, or may be yet, until another one has been. */
  async #mayBeClaimed(id: string, { departure, token }: ArrivalRecord, isAsked: boolean): Promise<boolean> {
    const limit = AbortSignal.timeout(5000);
    const holder = await this.#deps.shared.store.parked
      .readClaim(parkedId(id, departure), limit)
      .catch(() => token);
    return holder === token || (holder === undefined && isAsked);
  }

  /** From the registry's answer on it is a sandbox of this host. */
  async #enter(id: string, arrived: ReturnType<typeof toArrivedRecord>): Promise<Sandbox> {
    const { context, log } = this.#deps;
    const paths = sandboxPaths(context.directories, id);
    const policy = heldPolicyOf(arrived);
    // The guest trusts this one from its resume on; the key of the other stayed behind.
    const made = policy && needsAuthority(policy) ? await context.authorities.make(id) : undefined;
    const storedBytes = await storedBytesIn(pausedDir(paths.dir));
    const network = arrived.options.network === undefined ? undefined : await context.network.allocate();
    const record: SandboxRecord = {
      ...arrived,
      ...(arrived.paused && { paused: { ...arrived.paused, storedBytes } }),
      incarnation: randomUUID(),
      isReady: true,
      ...(made && { authority: made.id }),
      ...(network && { network }),
      // Without a boot of this host: its network is made as after a reboot.
      vmm: {
        ...{ engine: NO_ENGINE, pid: 0, startTicks: 0, bootId: '' },
        paths: { dir: paths.dir, socketDir: paths.socketDir },
        memory: { kind: 'anonymous' },
      },
    };
    await context.records.put(id, record, made?.persist).catch(async (error: unknown) => {
      if (network !== undefined) await context.network.destroy(network);
      throw error;
    });
    const own: SandboxContext = {
      ...{ id, context, paths, record, handles: {} },
      log: log.child({ sandbox: id }),
    };
    const recorded = async (): Promise<void> => {
      await context.records.flush();
      context.faults.reach('arrival.recorded');
    };
    await everyOne([recorded(), adoptPaused(own)]);
    const settled = {
      ...record,
      vmm: record.vmm && { ...record.vmm, bootId: readBootId() },
    };
    await context.records.put(id, settled);
    const sandbox = new Sandbox({ ...own, record: settled });
    this.#deps.register(sandbox);
    return sandbox;
  }
}

/** Disk space of what files that were fetched ahead do not have. */
function missingBytes(manifest: StoreManifest, content: Prefetched['content'] = new Map()): number {
  const missing = (file: StoreManifest['files'][number]) =>
    diskBytesOf(file, (index) => content.get(file.part)?.has(index) === true);
  return manifest.files.reduce((sum, file) => sum + missing(file), 0);
}
