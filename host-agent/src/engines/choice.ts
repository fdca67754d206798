// The engine of new sandboxes. If the engine that the probe chose cannot boot the first real guest, the next one
// replaces it.
import { mkdir, rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { endProcess } from '../lib/process-record.ts';
import { raceSignal } from '../lib/wait.ts';
import { ChoiceCache, type Circumstances } from './choice-cache.ts';
import type { Engine } from './engine.ts';
import { describeTries, type SelectedEngine, selectEngine, type Try } from './select.ts';

export type EngineChoiceOptions = Circumstances & {
  /** Directory of the choice cache. */
  readonly cacheDir: string;
  /** Directory for probes; created and removed as needed. */
  readonly scratchDir: string;
  readonly log: Logger;
};

/** Stages of a start whose failure may be the engine's fault. */
const ENGINE_STAGES: readonly (string | undefined)[] = ['spawn', 'boot', 'agent'];

/** The first guest on an engine did not start. `cause` is the original error. */
export class FirstStartError extends Error {
  override readonly name = 'FirstStartError';
  /** Whether another engine is current now, so that the start can be retried. */
  readonly isReplaced: boolean;

  constructor(isReplaced: boolean, cause: unknown) {
    super('the first guest of an engine did not start', { cause });
    this.isReplaced = isReplaced;
  }
}

/** The engine of new sandboxes. */
export interface Engines {
  readonly current: Engine;
  /** Records that a real guest has started on this engine: later failures are not attributed to the engine. */
  markProven(engine: Engine): void;
  /**
   * Runs `boot`, which boots a real guest on the current engine. FirstStartError if it fails and no guest has started
   * on that engine before.
   */
  bootOrReplaceEngine<T>(boot: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /**
   * Runs `work`, which uses `bootOrReplaceEngine`, and repeats it as long as the engine is replaced. Rejects with the
   * last boot's error.
   */
  withReplacement<T>(work: () => Promise<T>): Promise<T>;
}

export class EngineChoice implements Engines, AsyncDisposable {
  readonly #options: EngineChoiceOptions;
  readonly #cache: ChoiceCache;
  readonly #closing = new AbortController();
  /** Engines that have run a real guest since the daemon's start. */
  readonly #proven = new Set<Engine>();
  /** Engines whose first real guest did not start, with the reason. */
  readonly #failed = new Map<Engine, Try>();
  readonly #preferred: SelectedEngine;
  #selected: SelectedEngine;
  #moving: Promise<boolean> | undefined;

  private constructor(options: EngineChoiceOptions, cache: ChoiceCache, selected: SelectedEngine) {
    this.#options = options;
    this.#cache = cache;
    this.#preferred = selected;
    this.#selected = selected;
  }

  /** Uses the cached choice or probes. AppError unsupported if no engine works; the signal's reason. */
  static async open(options: EngineChoiceOptions, signal: AbortSignal): Promise<EngineChoice> {
    const cache = await ChoiceCache.open(options.cacheDir, options);
    const known = await cache.find(options.engines);
    const selected = known ?? (await select(options, options.engines, signal));
    const choice = new EngineChoice(options, cache, selected);
    if (known === undefined) await choice.#remember();
    const { name, accelerator } = selected.engine;
    const { tried } = selected;
    options.log.info(
      { engine: name, accelerator, reason: choice.reason, isRemembered: known !== undefined, tried },
      'engine chosen',
    );
    return choice;
  }

  get current(): Engine {
    return this.#selected.engine;
  }

  /** All engines that were tried for this choice, in order. */
  get tried(): readonly Try[] {
    return [...this.#failed.values(), ...this.#selected.tried];
  }

  get version(): string {
    return this.#selected.probe.version;
  }

  /** One line that explains the choice. */
  get reason(): string {
    const { engine, probe } = this.#selected;
    const others = this.tried.filter(
      ({ name, accelerator }) => name !== engine.name || accelerator !== engine.accelerator,
    );
    const chosen = `${engine.name} ${probe.version}: ${probe.detail}`;
    return others.length === 0 ? chosen : `${chosen}; ${describeTries(others)}`;
  }

  markProven(engine: Engine): void {
    this.#proven.add(engine);
  }

  async bootOrReplaceEngine<T>(boot: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const engine = this.current;
    const startedAt = performance.now();
    try {
      return await boot();
    } catch (error) {
      signal.throwIfAborted();
      if (this.#proven.has(engine) || !isEngineFault(error)) throw error;
      const ms = Math.round(performance.now() - startedAt);
      // A concurrent start may have replaced the engine already.
      if (this.current !== engine) throw new FirstStartError(true, error);
      this.#moving ??= this.#moveOn(engine, toError(error), ms).finally(() => {
        this.#moving = undefined;
      });
      const isReplaced = await raceSignal(this.#moving, signal);
      throw new FirstStartError(isReplaced, isReplaced ? error : this.#explain(engine, error));
    }
  }

  async withReplacement<T>(work: () => Promise<T>): Promise<T> {
    for (let triesLeft = this.#options.engines.length; ; triesLeft--) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof FirstStartError)) throw error;
        if (!error.isReplaced || triesLeft <= 1) throw error.cause;
      }
    }
  }

  /** Aborts a running probe. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AppError('cancelled', 'the daemon is stopping'));
    await this.#moving?.catch(() => undefined);
  }

  /** False if there is no other engine. Then the guest may be the cause, and the first choice is kept. */
  async #moveOn(engine: Engine, error: Error, ms: number): Promise<boolean> {
    const { log, engines } = this.#options;
    const { name, accelerator } = engine;
    const [cause = ''] = error.message.split('\n', 1);
    await this.#cache.drop();
    this.#failed.set(engine, { name, accelerator, verdict: `the first guest did not start: ${cause}`, ms });
    const rest = engines.filter((each) => !this.#failed.has(each));
    log.warn({ engine: name, accelerator, cause }, 'the chosen engine did not start its first guest');
    try {
      if (rest.length === 0) throw new Error('there is no other one');
      this.#selected = await select(this.#options, rest, this.#closing.signal);
    } catch (err) {
      log.warn({ reason: toError(err).message }, 'no other engine can replace the failed one');
      this.#failed.clear();
      this.#selected = this.#preferred;
      return false;
    }
    const next = this.#selected.engine;
    log.warn({ engine: next.name, accelerator: next.accelerator, reason: this.reason }, 'engine replaced');
    await this.#remember();
    return true;
  }

  #explain(engine: Engine, error: unknown): unknown {
    if (!isAppError(error) || this.#options.engines.some(({ name }) => name !== engine.name)) return error;
    const { code, message, details } = error;
    const only = `${message}; no guest has run on the engine ${engine.name} so far, and --engine allows no other`;
    return new AppError(code, only, { ...details, cause: error });
  }

  /** A failure only makes the next daemon start slower. */
  async #remember(): Promise<void> {
    await this.#cache
      .put({ ...this.#selected, tried: this.tried })
      .catch((err) => this.#options.log.warn({ err }, 'cannot write the engine choice cache'));
  }
}

function isEngineFault(error: unknown): boolean {
  return isAppError(error) && error.code === 'internal' && ENGINE_STAGES.includes(error.details.stage);
}

async function select(
  { scratchDir, log }: EngineChoiceOptions,
  engines: readonly Engine[],
  signal: AbortSignal,
): Promise<SelectedEngine> {
  await removeTrials(scratchDir, engines, log);
  await mkdir(scratchDir, { recursive: true, mode: 0o700 });
  try {
    return await selectEngine(engines, log, signal);
  } finally {
    await rm(scratchDir, { recursive: true, force: true });
  }
}

/** Removes what a daemon that was killed during a probe left. */
async function removeTrials(
  scratchDir: string,
  engines: readonly Engine[],
  log: EngineChoiceOptions['log'],
): Promise<void> {
  const left = engines.flatMap((engine) => engine.findVmms(scratchDir));
  const ends = await Promise.allSettled(left.map(endProcess));
  for (const end of ends)
    if (end.status === 'rejected') log.error({ err: end.reason }, 'the VMM of an earlier probe does not end');
  await rm(scratchDir, { recursive: true, force: true });
}
