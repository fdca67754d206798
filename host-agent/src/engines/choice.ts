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

/** After no engine worked, creates do not have them tried again for this long. */
const RETRY_MS = 60_000;
/** A trial takes some 4 s under emulation, and less with KVM. A host that needs longer than this is used, too. */
const SLOW_MS = 30_000;
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
  /** AppError unsupported while none is chosen. */
  readonly current: Engine;
  /** Undefined while none is chosen. */
  readonly ifChosen: Engine | undefined;
  /**
   * Waits while the engines are tried, and tries them again if none worked a while ago. AppError unsupported with the
   * reasons if none works; the signal's reason.
   */
  chosen(signal: AbortSignal): Promise<Engine>;
  /** Calls `use` as soon as an engine is chosen, before `chosen` resolves; at once if one is. */
  onceChosen(use: () => void): void;
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

/** `trying`: the engines are tried with guests; `failed`: none of them works. */
export type ChoiceState = 'trying' | 'chosen' | 'failed';

export class EngineChoice implements Engines, AsyncDisposable {
  readonly #options: EngineChoiceOptions;
  readonly #cache: ChoiceCache;
  readonly #closing = new AbortController();
  readonly #stopped: AbortSignal;
  /** Engines that have run a real guest since the daemon's start. */
  readonly #proven = new Set<Engine>();
  /** Engines whose first real guest did not start, with the reason. */
  readonly #failed = new Map<Engine, Try>();
  #preferred: SelectedEngine | undefined;
  #selected: SelectedEngine | undefined;
  #trial: Promise<void> | undefined;
  /** Why no engine worked, and when that was found. */
  #failure: { readonly error: AppError; readonly atMs: number } | undefined;
  readonly #onceChosen: (() => void)[] = [];
  #moving: Promise<boolean> | undefined;

  private constructor(options: EngineChoiceOptions, cache: ChoiceCache, stopped: AbortSignal) {
    this.#options = options;
    this.#cache = cache;
    this.#stopped = AbortSignal.any([this.#closing.signal, stopped]);
  }

  /**
   * Uses the cached choice; without one, the first call of `chosen` tries the engines. AppError unsupported if it can
   * be seen without a guest that none works. `signal` ends a trial, also later.
   */
  static async open(options: EngineChoiceOptions, signal: AbortSignal): Promise<EngineChoice> {
    const cache = await ChoiceCache.open(options.cacheDir, options);
    const choice = new EngineChoice(options, cache, signal);
    const known = await cache.find(options.engines);
    if (known !== undefined) choice.#choose(known, true);
    else await refuseImpossible(options.engines);
    signal.throwIfAborted();
    return choice;
  }

  get state(): ChoiceState {
    if (this.#selected !== undefined) return 'chosen';
    return this.#trial === undefined && this.#failure !== undefined ? 'failed' : 'trying';
  }

  get current(): Engine {
    if (this.#selected !== undefined) return this.#selected.engine;
    throw (
      this.#failure?.error ?? new AppError('unsupported', 'no engine is chosen yet: they are still tried')
    );
  }

  get ifChosen(): Engine | undefined {
    return this.#selected?.engine;
  }

  async chosen(signal: AbortSignal): Promise<Engine> {
    signal.throwIfAborted();
    if (this.#selected === undefined) {
      const { error, atMs = 0 } = this.#failure ?? {};
      if (error !== undefined && this.#trial === undefined && performance.now() - atMs < RETRY_MS)
        throw error;
      await raceSignal(this.#try(), signal);
    }
    return this.current;
  }

  onceChosen(use: () => void): void {
    if (this.#selected === undefined) this.#onceChosen.push(use);
    else use();
  }

  #choose(selected: SelectedEngine, isRemembered: boolean): void {
    const { log } = this.#options;
    this.#preferred = selected;
    this.#selected = selected;
    this.#failure = undefined;
    const { engine, tried } = selected;
    const { name, accelerator } = engine;
    log.info({ engine: name, accelerator, reason: this.reason, isRemembered, tried }, 'engine chosen');
    if (this.#slowness !== undefined)
      log.warn({ engine: name, accelerator }, `guests start slowly on this host: ${this.#slowness}`);
    for (const use of this.#onceChosen.splice(0)) use();
  }

  /** Concurrent callers share one trial. */
  #try(): Promise<void> {
    this.#trial ??= this.#selectFirst().finally(() => {
      this.#trial = undefined;
    });
    return this.#trial;
  }

  async #selectFirst(): Promise<void> {
    const { engines, log } = this.#options;
    log.info({ engines: nameAll(engines) }, 'trying engines; creates wait for the result');
    try {
      this.#choose(await select(this.#options, engines, this.#stopped), false);
      await this.#remember();
    } catch (error) {
      this.#stopped.throwIfAborted();
      const { message, details = {} } =
        error instanceof AppError ? error : { message: toError(error).message };
      const failure = new AppError('unsupported', message, { ...details, cause: error });
      this.#failure = { error: failure, atMs: performance.now() };
      log.error({ reason: message }, 'no engine works: creates and forks fail; `sandboxd doctor` says more');
      throw failure;
    }
  }

  /** Whether guests start slowly on this host; `reason` has the time. */
  get isSlow(): boolean {
    return this.#slowness !== undefined;
  }

  /** What to say of a host on which the trial of the engine took long. */
  get #slowness(): string | undefined {
    const { engine, tried = [] } = this.#selected ?? {};
    const own = tried.find((one) => one.name === engine?.name && one.accelerator === engine.accelerator);
    return own === undefined || own.ms < SLOW_MS
      ? undefined
      : `one was booted, saved and copied in ${(own.ms / 1000).toFixed(0)} s`;
  }

  /** All engines that were tried for this choice, in order. */
  get tried(): readonly Try[] {
    return [...this.#failed.values(), ...(this.#selected?.tried ?? [])];
  }

  /** Empty while none is chosen. */
  get version(): string {
    return this.#selected?.probe.version ?? '';
  }

  /** One line that explains the choice, or why there is none. */
  get reason(): string {
    if (this.#selected === undefined)
      return this.state === 'trying'
        ? `trying ${nameAll(this.#options.engines)}, each with a guest; creates wait for the result`
        : (this.#failure?.error.message ?? '');
    const { engine, probe } = this.#selected;
    const others = this.tried.filter(
      ({ name, accelerator }) => name !== engine.name || accelerator !== engine.accelerator,
    );
    const slow = this.#slowness === undefined ? '' : `; slow: ${this.#slowness}`;
    const chosen = `${engine.name} ${probe.version}: ${probe.detail}${slow}`;
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
    await this.#trial?.catch(() => undefined);
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
      this.#selected = await select(this.#options, rest, this.#stopped);
    } catch (err) {
      log.warn({ reason: toError(err).message }, 'no other engine can replace the failed one');
      this.#failed.clear();
      this.#selected = this.#preferred;
      return false;
    }
    const next = this.current;
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
    if (this.#selected === undefined) return;
    await this.#cache
      .put({ ...this.#selected, tried: this.tried })
      .catch((err) => this.#options.log.warn({ err }, 'cannot write the engine choice cache'));
  }
}

function nameAll(engines: readonly Engine[]): string {
  return engines.map(({ name, accelerator }) => `${name} (${accelerator})`).join(', ');
}

/** AppError unsupported if no engine can work, as far as can be seen without a guest. */
async function refuseImpossible(engines: readonly Engine[]): Promise<void> {
  const obstacles = await Promise.all(
    engines.map(async (engine) => ({ engine, obstacle: await engine.obstacle() })),
  );
  if (obstacles.some(({ obstacle }) => obstacle === undefined)) return;
  const reasons = obstacles.map(({ engine, obstacle }) => `${nameAll([engine])}: ${obstacle}`).join('; ');
  throw new AppError('unsupported', `no engine can run guests on this host: ${reasons}`, { stage: 'probe' });
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
