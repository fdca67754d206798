// Chooses the first engine that works and is not slower than emulation, by probing them.
import type { Logger } from 'pino';
import { AppError, toError } from '../lib/errors.ts';
import type { Engine, UsableEngine } from './engine.ts';

/** The result for one engine, for the log and for reports. */
export type Try = {
  readonly name: string;
  readonly accelerator: string;
  /** `works`, or one line that says why it is not used. */
  readonly verdict: string;
  readonly ms: number;
};

export type SelectedEngine = {
  readonly engine: Engine;
  readonly probe: UsableEngine;
  readonly tried: readonly Try[];
};

export const WORKS = 'works';
const UNNEEDED = 'not needed: one before it works';

/**
 * Probes the engines in the given order. Each gets at most the time that emulation takes. AppError `unsupported` with
 * all reasons if none works; the signal's reason.
 */
export async function selectEngine(
  engines: readonly Engine[],
  log: Logger,
  outer?: AbortSignal,
): Promise<SelectedEngine> {
  const tried: Try[] = [];
  const note = (one: Try): void => {
    tried.push(one);
    log.info(one, 'engine tried');
  };
  const emulation = engines.find(({ isEmulation }) => isEmulation);
  // Emulation is probed concurrently: both then have the same share of a busy host.
  await using measure = emulation && new Attempt(emulation, outer);
  for (const engine of engines) {
    if (engine === emulation) continue;
    await using attempt = new Attempt(engine, outer);
    measure?.onSuccess((ms) => attempt.limit(ms));
    const result = await attempt.done;
    note(result.summary);
    if (result.probe === undefined) continue;
    await measure?.[Symbol.asyncDispose]();
    if (measure !== undefined) note((await measure.done).summary);
    return { engine, probe: result.probe, tried };
  }
  const last = await measure?.done;
  if (last !== undefined) note(last.summary);
  if (emulation !== undefined && last?.probe !== undefined)
    return { engine: emulation, probe: last.probe, tried };
  throw new AppError('unsupported', `no engine can run guests on this host: ${describeTries(tried)}`, {
    stage: 'probe',
  });
}

/** Formats each as `name (accelerator): verdict`. */
export function describeTries(tried: readonly Try[]): string {
  return tried
    .map(({ name, accelerator, verdict, ms }) => `${name} (${accelerator}): ${verdict}, ${ms} ms`)
    .join('; ');
}

type Outcome = { readonly summary: Try; readonly probe: UsableEngine | undefined };

/** A probe that can be aborted. */
class Attempt implements AsyncDisposable {
  /** Rejects with the outer signal's reason only. */
  readonly done: Promise<Outcome>;
  readonly #startedAt = performance.now();
  readonly #end = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(engine: Engine, outer?: AbortSignal) {
    this.done = this.#run(engine, outer);
  }

  /** Calls `tell` with the elapsed time if the engine works. */
  onSuccess(tell: (ms: number) => void): void {
    this.done.then(
      ({ probe, summary }) => probe !== undefined && tell(summary.ms),
      () => undefined,
    );
  }

  /** Aborts the probe after `ms`, the time that emulation took. No effect if it is already done. */
  limit(ms: number): void {
    if (this.#end.signal.aborted) return;
    const leftMs = Math.max(0, ms - (performance.now() - this.#startedAt));
    const why = new Error(`slower than emulation, which took ${ms} ms`);
    this.#timer = setTimeout(() => this.#end.abort(why), leftMs);
  }

  /** Aborts the probe; resolves when it is cleaned up. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer);
    this.#end.abort(new Error(UNNEEDED));
    await this.done.catch(() => undefined);
  }

  async #run(engine: Engine, outer?: AbortSignal): Promise<Outcome> {
    const { signal } = this.#end;
    const sum = (verdict: string): Try => ({
      name: engine.name,
      accelerator: engine.accelerator,
      verdict,
      ms: Math.round(performance.now() - this.#startedAt),
    });
    try {
      const probe = await engine.probe(outer === undefined ? signal : AbortSignal.any([outer, signal]));
      if (probe.isUsable) return { summary: sum(WORKS), probe };
      return { summary: sum(probe.reason), probe: undefined };
    } catch (error) {
      outer?.throwIfAborted();
      return { summary: sum(toError(error).message), probe: undefined };
    }
  }
}
