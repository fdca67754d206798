// Which engine new sandboxes get. The one that the probe chose is replaced when it cannot boot the first real guest.
import { mkdir, rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { endProcess } from '../lib/process-record.ts';
import { raceSignal } from '../lib/wait.ts';
import { ChoiceCache, type Circumstances } from './choice-cache.ts';
import type { Engine } from './engine.ts';
import { describeTries, type SelectedEngine, selectEngine, type Try } from './select.ts';

export type EngineChoiceOptions = Circumstances & {
  /** Where choices are remembered. */
  readonly cacheDir: string;
  /** Directory for probes, made and removed as needed. */
  readonly scratchDir: string;
  readonly log: Logger;
};

/** Stages of a start at whose failure the engine may be the reason. */
const ENGINE_STAGES: readonly (string | undefined)[] = ['spawn', 'boot', 'agent'];

/** The first guest of an engine did not start. The cause is why, for a person. */
export class FirstStartError extends Error {
  override readonly name = 'FirstStartError';
  /** Whether another engine is the current one now, to start the guest on. */
  readonly isReplaced: boolean;

  constructor(isReplaced: boolean, cause: unknown) {
    super('the first guest of an engine did not start', { cause });
    this.isReplaced = isReplaced;
  }
}

/** The engine of new guests. */
export interface Engines {
  readonly current: Engine;
  /** A real guest has started on this engine: whatever fails on it from now on has other reasons. */
  markProven(engine: Engine): void;
  /**
   * Runs `boot`, which boots a real guest on the current engine. FirstStartError when it failed and no guest has started
   * on that engine so far.
   */
  bootOrReplaceEngine<T>(boot: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Runs `work`, which uses `bootOrReplaceEngine`, again for as long as that finds another engine. Rejects as the last boot did. */
  withReplacement<T>(work: () => Promise<T>): Promise<T>;
}

export class EngineChoice implements Engines, AsyncDisposable {
  readonly #options: EngineChoiceOptions;
  readonly #cache: ChoiceCache;
  readonly #closing = new AbortController();
  /** Engines that a real guest ran on since the daemon's start. */
  readonly #proven = new Set<Engine>();
  /** Engines on which the first real guest did not start, and why. */
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

  /** Chooses, or remembers what was chosen. AppError unsupported when no engine works; the signal's reason. */
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

  /** Every engine that was tried for this choice, in that order. */
  get tried(): readonly Try[] {
    return [...this.#failed.values(), ...this.#selected.tried];
  }

  get version(): string {
    return this.#selected.probe.version;
  }

  /** One line on why this one. */
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
      // Others that started at the same time may have found out already.
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

  /** Ends a probe that is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AppError('cancelled', 'the daemon is stopping'));
    await this.#moving?.catch(() => undefined);
  }

  /** False when there is no other engine: then the guest may be the reason, and the first choice is tried again. */
  async #moveOn(engine: Engine, error: Error, ms: number): Promise<boolean> {
    const { log, engines } = this.#options;
    const { name, accelerator } = engine;
    const [cause = ''] = error.message.split('\n', 1);
    await this.#cache.drop();
    this.#failed.set(engine, { name, accelerator, verdict: `the first guest did not start: ${cause}`, ms });
    const rest = engines.filter((each) => !this.#failed.has(each));
    log.warn(
      { engine: name, accelerator, cause },
      'the engine that was chosen did not start its first guest',
    );
    try {
      if (rest.length === 0) throw new Error('there is no other one');
      this.#selected = await select(this.#options, rest, this.#closing.signal);
    } catch (err) {
      log.warn({ reason: toError(err).message }, 'no other engine takes its place');
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

  /** A daemon that cannot is as good, only slower to start. */
  async #remember(): Promise<void> {
    await this.#cache
      .put({ ...this.#selected, tried: this.tried })
      .catch((err) => this.#options.log.warn({ err }, 'cannot remember which engine works'));
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

/** What is left of a daemon that was killed as it tried engines. */
async function removeTrials(
  scratchDir: string,
  engines: readonly Engine[],
  log: EngineChoiceOptions['log'],
): Promise<void> {
  const left = engines.flatMap((engine) => engine.findVmms(scratchDir));
  const ends = await Promise.allSettled(left.map(endProcess));
  for (const end of ends)
    if (end.status === 'rejected') log.error({ err: end.reason }, 'the VMM of an earlier trial does not end');
  await rm(scratchDir, { recursive: true, force: true });
}
