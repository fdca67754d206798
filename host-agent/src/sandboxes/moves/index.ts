// Sandboxes that change their host, with their id: they leave, arrive, and all leave when the host is drained.
import type { Limits, Owner } from '../../keys/index.ts';
import { type AppError, firstLine, isAppError } from '../../lib/errors.ts';
import type { Admission } from '../admission.ts';
import type { Names } from '../names.ts';
import type { SandboxManagerOptions } from '../options.ts';
import { toSnapshotsOptions } from '../options.ts';
import { movingSandbox, noSandbox } from '../record.ts';
import type { Sandbox } from '../sandbox.ts';
import { saveTemporarily } from '../save-sandbox.ts';
import type { Sleep } from '../sleep/sleep.ts';
import { RetryQueue } from '../stored/retry-queue.ts';
import type { Operations } from '../sweeps.ts';
import type { ParkedSandbox } from '../types.ts';
import { type ArrivalConditions, Arrivals, type Arrived } from './arrivals.ts';
import { assertStore } from './departure-record.ts';
import { Departures } from './departures.ts';
import { Drain } from './drain.ts';
import { Offers } from './offers.ts';
import { Prefetches } from './prefetches.ts';
import { RightOfWay } from './right-of-way.ts';
import type { MoveTables } from './tables.ts';

const RESUMES_AT_ONCE = 4;
const DESCRIBE_MS = 10_000;
/** For so long a host remembers who has left: a request that is on its way here finds the other one when repeated. */
const REMEMBERED_MS = 30_000;
const MAX_REMEMBERED = 1000;

export type { MoveTimes } from './ahead.ts';
export type { DrainRecord } from './drain.ts';
export { type DrainProgress, readDrain, wantDrain, wantNoDrain } from './drain.ts';
export type { MoveTables } from './tables.ts';

type MovesDeps = {
  readonly admission: Admission;
  readonly limits: Limits;
  readonly names: Names<Sandbox>;
  readonly operations: Operations;
  readonly sleep: Sleep;
  readonly sandboxes: ReadonlyMap<string, Sandbox>;
  readonly register: (sandbox: Sandbox) => void;
  /** Removes it here; another host has it. `onGone`: nothing of it is left. */
  readonly forget: (sandbox: Sandbox, onGone: () => Promise<void>) => Promise<void>;
};

export class Moves {
  /** Undefined without a snapshot store. */
  readonly departures: Departures | undefined;
  readonly arrivals: Arrivals | undefined;
  readonly prefetches: Prefetches | undefined;
  readonly offers: Offers | undefined;
  readonly drain: Drain;
  /** For a sandbox that arrives, until it runs. */
  readonly rightOfWay = new RightOfWay();
  readonly #departed: MoveTables['departures'];
  /** The oldest first. */
  readonly #left = new Map<string, { readonly owner: Owner | undefined; readonly untilMs: number }>();
  readonly #find: (id: string) => Sandbox | undefined;
  readonly #all: () => Iterable<Sandbox>;
  /** Of those that ran before they moved, or were to move. */
  readonly #resumes: RetryQueue;

  constructor(options: SandboxManagerOptions, deps: MovesDeps) {
    const { context, moves: tables, log, movePollMs, moveTimes } = options;
    const { admission, limits, names, operations, sleep, sandboxes, register, forget } = deps;
    const { shared } = toSnapshotsOptions(options, admission);
    const find = (id: string) => sandboxes.get(id);
    this.#find = find;
    this.#all = () => sandboxes.values();
    this.#resumes = new RetryQueue({
      concurrency: RESUMES_AT_ONCE,
      work: async (id) => {
        const sandbox = find(id);
        if (sandbox === undefined || sandbox.isGone || sandbox.isDeparting) return;
        if (sandbox.record.paused?.isToResume === true) await sleep.resume(sandbox);
      },
      onFailure: (sandbox, error) =>
        log.warn(
          { sandbox, reason: firstLine(error) },
          'a sandbox that ran is not resumed yet; trying again',
        ),
    });
    this.#departed = tables.departures;
    const track = <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> =>
      operations.trackSave(work(operations.signal()));
    this.departures =
      shared &&
      new Departures({
        ...{ context, store: shared.store, records: tables.departures, sleep, find, track, log },
        rightOfWay: this.rightOfWay,
        save: (sandbox, signal) => {
          const endVm = () => sleep.endVm(sandbox);
          return saveTemporarily(sandbox, { context, admission, endVm }, signal);
        },
        forget: (sandbox, onGone) => {
          this.#remember(sandbox);
          return forget(sandbox, onGone);
        },
        pollMs: movePollMs,
        aheadTimes: moveTimes,
      });
    const assertOpen = (): void => this.drain.assertOpen();
    this.prefetches =
      shared &&
      new Prefetches({
        ...{ context, shared, assertOpen, track, log, keptMs: moveTimes?.keptMs },
        rightOfWay: this.rightOfWay,
      });
    this.arrivals =
      this.prefetches &&
      shared &&
      new Arrivals({
        ...{ context, shared, records: tables.arrivals, find, track, log, assertOpen },
        prefetches: this.prefetches,
        onFinished: (sandbox) => this.resume(sandbox),
        reserveName: (owner, name) => names.reserve(owner, name),
        admitPause: (owner) => limits.admitPause(owner),
        register: (sandbox) => {
          this.#left.delete(sandbox.id);
          register(sandbox);
          void sleep.adopt(sandbox);
        },
      });
    const stopping = () => operations.signal();
    this.offers = shared && new Offers({ context, store: shared.store, stopping, log });
    this.drain = new Drain({
      ...{ records: tables.drain, departures: this.departures, find, events: context.events, log },
      sandboxes: () => sandboxes.values(),
      isBound: (id) => tables.bound?.get(id) !== undefined,
      resume: (sandbox) => sleep.resume(sandbox),
      pollMs: movePollMs,
    });
  }

  start(): void {
    // Without a store no host says whose they are.
    if (this.departures === undefined)
      for (const { id, record } of this.#departed.all()) {
        const sandbox = this.#find(id);
        if (sandbox !== undefined && record.phase === 'offered') sandbox.isDeparting = true;
      }
    this.departures?.start();
    this.arrivals?.start();
    this.drain.start();
    for (const { id, record } of this.#all()) if (record.paused?.isToResume === true) this.#resumes.add(id);
  }

  async stop(): Promise<void> {
    await this.drain.stop();
    await this.#resumes.stop();
    await this.departures?.stop();
    await this.arrivals?.stop();
    await this.prefetches?.stop();
  }

  /** Before a delete of a sandbox that may be on its way. AppError as of `Departures.takeBack`. */
  async keep(sandbox: Sandbox): Promise<void> {
    if (!sandbox.isDeparting) return;
    const record = this.#departed.get(sandbox.id);
    if (this.departures === undefined && record?.phase === 'offered')
      assertStore(record, undefined, sandbox.id);
    try {
      await this.departures?.takeBack(sandbox);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      await this.departures?.abandon(sandbox);
    }
  }

  #remember({ id, record }: Sandbox): void {
    this.#left.delete(id);
    this.#left.set(id, { owner: record.owner, untilMs: performance.now() + REMEMBERED_MS });
    const [oldest] = this.#left.keys();
    if (this.#left.size > MAX_REMEMBERED && oldest !== undefined) this.#left.delete(oldest);
  }

  /** Why this host does not have it: `exhausted`, to be tried again, if another host has it since just now. */
  missing(id: string, isVisible: (owner: Owner | undefined) => boolean): AppError {
    const left = this.#left.get(id);
    const hasLeft = left !== undefined && left.untilMs > performance.now() && isVisible(left.owner);
    return hasLeft ? movingSandbox(id) : noSandbox(id);
  }

  /** One that has arrived runs soon, if it ran where it came from: also after failures, and after a restart. */
  resume(sandbox: Sandbox): void {
    this.#resumes.add(sandbox.id);
  }

  /** AppError not_found, also without a snapshot store, and upstream. */
  async describe(id: string, isVisible: (owner: Owner | undefined) => boolean): Promise<ParkedSandbox> {
    if (this.arrivals === undefined) throw noSandbox(id);
    return await this.arrivals.describe(id, isVisible, AbortSignal.timeout(DESCRIBE_MS));
  }

  /** AppError not_found without a snapshot store, and as of `Arrivals.takeOver`. */
  async takeOver(
    id: string,
    isVisible: (owner: Owner | undefined) => boolean,
    conditions?: ArrivalConditions,
  ): Promise<Arrived> {
    if (this.arrivals === undefined) throw noSandbox(id);
    return await this.arrivals.takeOver(id, isVisible, conditions);
  }
}

/** An object of the store cannot be read, whenever it is tried. */
function isDamaged(error: unknown): boolean {
  return isAppError(error) && error.code === 'internal' && error.details.stage === 'store';
}
