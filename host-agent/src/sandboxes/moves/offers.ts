// Sandboxes that the snapshot store offers and that no host has: found by id, listed, and deleted there.
import type { Logger } from 'pino';
import type { Owner } from '../../keys/index.ts';
import { AppError, firstLine, isAppError } from '../../lib/errors.ts';
import { forEachAtOnce } from '../../lib/for-each-at-once.ts';
import { raceSignal } from '../../lib/wait.ts';
import { movingSandbox, type SandboxRecord, toInfo } from '../record.ts';
import { sandboxPaths } from '../resources/files.ts';
import type { ResourceContext } from '../resources/resource.ts';
import { readReferences } from '../secrets.ts';
import type { ResolvedImport, SharedOptions } from '../stored/shared.ts';
import type { ParkedSandbox, SandboxInfo } from '../types.ts';
import { type Parked, parkedId, readParked, toArrivedRecord, toOwner } from './parked.ts';

/** A description takes some 2 KiB. */
const MAX_OFFERS = 10_000;
const CONCURRENCY = 16;
/** A list of clients is at most this old, or four times as old as its reading took. */
const MAX_LIST_AGE_MS = 2000;
const AGE_BY_DURATION = 4;
/** Requests wait at most this long for a list. */
const LIST_WAIT_MS = 4000;

/** After a failure requests do not wait for this time. */
const OUTAGE_MS = 5000;

export type Offer = {
  readonly info: SandboxInfo;
  readonly owner: Owner | undefined;
  readonly place: ParkedSandbox;
};

export type OffersDeps = {
  readonly store: Pick<SharedOptions['store'], 'parked' | 'read' | 'removeManifest'>;
  readonly context: Pick<ResourceContext, 'directories' | 'events'>;
  readonly stopping: () => AbortSignal;
  readonly log: Logger;
};

export class Offers {
  readonly #deps: OffersDeps;
  /** By sandbox, as the last list had them. */
  #offered: ReadonlyMap<string, Offer> = new Map();
  /** What was read of a departure, which never changes; undefined: it cannot be used. */
  #read: ReadonlyMap<string, Offer | undefined> = new Map();
  #untilMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  /** What failed last. A list takes longer than a question about one. */
  readonly #outages = new Map<'one' | 'all', { readonly error: unknown; readonly atMs: number }>();

  constructor(deps: OffersDeps) {
    this.#deps = deps;
  }

  /** As the store has it now. Rejects as the store does. */
  async find(id: string, signal: AbortSignal): Promise<Offer | undefined> {
    return await this.#ask('one', async () => {
      for (const departure of await this.#deps.store.parked.find(id, signal)) {
        const found = await this.#look(departure, signal);
        if (found?.offer !== undefined && !found.isTaken) return found.offer;
      }
      return undefined;
    });
  }

  /** `problem`: why those of now could not be read. `isNow`: not as a moment ago. */
  async list({ isNow = false } = {}): Promise<{ readonly offers: Offer[]; readonly problem?: string }> {
    try {
      if (isNow || performance.now() >= this.#untilMs) await this.#ask('all', () => this.#refresh(isNow));
      return { offers: [...this.#offered.values()] };
    } catch (error) {
      const problem = isAppError(error) ? firstLine(error) : 'the snapshot store does not answer in time';
      return { offers: [...this.#offered.values()], problem };
    }
  }

  /** Not while the last question has failed a moment ago. */
  async #ask<T>(about: 'one' | 'all', question: () => Promise<T>): Promise<T> {
    const { error, atMs } = this.#outages.get(about) ?? { atMs: Number.NEGATIVE_INFINITY };
    if (performance.now() - atMs < OUTAGE_MS) throw error;
    try {
      const found = await question();
      this.#outages.delete(about);
      return found;
    } catch (error) {
      this.#outages.set(about, { error, atMs: performance.now() });
      throw error;
    }
  }

  async #refresh(isNow: boolean): Promise<void> {
    // One that runs may have begun before what this caller knows of.
    if (isNow) await this.#reading?.catch(() => undefined);
    this.#reading ??= this.#list(this.#deps.stopping()).finally(() => {
      this.#reading = undefined;
    });
    await raceSignal(this.#reading, AbortSignal.timeout(LIST_WAIT_MS));
  }

  /**
   * No host can take it any more, and the one that it left forgets it. What the bucket does not remove then is
   * collected. AppError exhausted if a host was faster, `upstream`.
   */
  async remove({ info: { id, name, labels }, owner, place }: Offer, signal: AbortSignal): Promise<void> {
    const { store, context, log } = this.#deps;
    const departure = parkedId(id, place.departure);
    if (!(await store.parked.claimDeleted(departure, signal))) throw movingSandbox(id);
    await store
      .removeManifest(departure, signal)
      .catch((error: unknown) =>
        log.warn({ sandbox: id, reason: firstLine(error) }, 'a deleted sandbox stays in the store'),
      );
    this.#offered = new Map([...this.#offered].filter(([each]) => each !== id));
    context.events.emit({ kind: 'deleted', sandbox: id }, owner, { labels, ...(name && { name }) });
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { store, log } = this.#deps;
    const startedAt = performance.now();
    const departures: string[] = [];
    for await (const page of store.parked.list(signal)) {
      departures.push(...page.slice(0, MAX_OFFERS - departures.length));
      if (departures.length < MAX_OFFERS) continue;
      log.warn({ max: MAX_OFFERS }, 'the snapshot store has more paused sandboxes than are listed');
      break;
    }
    const read = new Map<string, Offer | undefined>();
    const offered = new Map<string, Offer>();
    const look = async (departure: string, signal: AbortSignal): Promise<void> => {
      const found = await this.#look(departure, signal, this.#read);
      if (found === undefined) return;
      read.set(departure, found.offer);
      if (found.offer !== undefined && !found.isTaken) offered.set(found.offer.info.id, found.offer);
    };
    await forEachAtOnce(departures, CONCURRENCY, look, signal);
    this.#read = read;
    this.#offered = offered;
    const now = performance.now();
    this.#untilMs = now + Math.max(MAX_LIST_AGE_MS, (now - startedAt) * AGE_BY_DURATION);
  }

  /** Undefined when it is gone. Without an offer: it cannot be used. `known`: has what was read before. */
  async #look(
    departure: string,
    signal: AbortSignal,
    known?: ReadonlyMap<string, Offer | undefined>,
  ): Promise<{ readonly offer: Offer | undefined; readonly isTaken: boolean } | undefined> {
    const { store, log } = this.#deps;
    try {
      const isTaken = (await store.parked.readClaim(departure, signal)) !== undefined;
      if (isTaken || known?.has(departure) === true) return { offer: known?.get(departure), isTaken };
      const manifest = await store.read(departure, signal);
      return manifest && { offer: this.#toOffer(departure, readParked(manifest)), isTaken };
    } catch (error) {
      if (!isAppError(error) || error.code !== 'internal') throw error;
      if (known?.has(departure) !== true)
        log.warn({ departure, reason: firstLine(error) }, 'a paused sandbox of the store cannot be used');
      return { offer: undefined, isTaken: false };
    }
  }

  #toOffer(path: string, parked: Parked): Offer {
    const { archive, record } = parked;
    const [id = '', departure = ''] = path.split('/');
    const { about: _, ...options } = archive.options;
    const secrets = readReferences(options.inherited?.secrets ?? []);
    if (secrets === undefined)
      throw new AppError('internal', 'its secrets are not valid', { stage: 'store' });
    // The host that takes it finds the root filesystem.
    const arrived = toArrivedRecord(parked, { ...options, secrets } as unknown as ResolvedImport);
    const { dir } = sandboxPaths(this.#deps.context.directories, id);
    const facts = { state: 'paused', lastUsedAtMs: archive.takenAtMs, exit: undefined } as const;
    const owner = toOwner(record.owner);
    const { vcpus, memoryMib } = archive.options;
    return {
      info: toInfo(id, arrived as SandboxRecord, dir, facts),
      owner,
      place: { departure, tenant: owner?.tenant, vcpus, memoryMib },
    };
  }
}
