// How the memory of a copy comes from its source: the best way that the program and this host have, found by asking.
import type { Logger } from 'pino';
import type { ForkMemory } from '../engine.ts';
import { ApiError } from './api-error.ts';
import type { MemoryRestoreMode } from './vm-config.ts';

/** Best first. */
const MODES: readonly (readonly [Exclude<ForkMemory, 'auto'>, MemoryRestoreMode])[] = [
  // Pages stay shared with the source until they are written.
  ['copy-on-write', 'CopyOnWrite'],
  // The copy runs at once; pages come when they are needed, the others behind its back.
  ['on-demand', 'OnDemand'],
  // Everything that is not a hole is read before the copy runs.
  ['copy', 'Copy'],
];

/** Refused before anything is done, with the name of the mode that it does not know. */
function isUnknownMode(error: unknown): boolean {
  return error instanceof ApiError && error.says(/unknown variant/);
}

/** No userfaultfd on this host, or none for this process. */
function isNoOnDemand(error: unknown): boolean {
  return error instanceof ApiError && error.says(/on-demand restore failed|userfaultfd/i);
}

/** Why a mode cannot be used here at all; undefined when the failure was another. */
function obstacle(mode: MemoryRestoreMode, error: unknown): string | undefined {
  if (isUnknownMode(error)) return 'this version does not have it';
  if (mode === 'OnDemand' && isNoOnDemand(error)) return `userfaultfd cannot be used: ${String(error)}`;
  return undefined;
}

export class MemoryModes {
  readonly #modes: MemoryRestoreMode[];
  #hasLogged = false;
  readonly #refusals: string[] = [];

  constructor(wanted: ForkMemory) {
    this.#modes = MODES.filter(([name]) => wanted === 'auto' || wanted === name).map(([, mode]) => mode);
  }

  /** Why there is no mode left; undefined when there is one. */
  get obstacle(): string | undefined {
    return this.#modes.length > 0 ? undefined : `no memory mode works: ${this.#refusals.join('; ')}`;
  }

  /** The mode that would be tried first, and why none before it. */
  describe(): string {
    const refused = this.#refusals.length === 0 ? '' : ` (${this.#refusals.join('; ')})`;
    return `copies get their memory by ${this.#modes[0] ?? 'no way at all'}${refused}`;
  }

  /** Calls `attempt` with the best mode, and with the next when that one turns out not to exist here. */
  async use(attempt: (mode: MemoryRestoreMode) => Promise<void>, log: Logger): Promise<void> {
    for (;;) {
      const mode = this.#modes[0];
      if (mode === undefined) throw new Error(this.obstacle);
      try {
        await attempt(mode);
        if (!this.#hasLogged) log.info({ mode, refusals: this.#refusals }, this.describe());
        this.#hasLogged = true;
        return;
      } catch (error) {
        const why = obstacle(mode, error);
        if (why === undefined) throw error;
        this.#refuse(mode, why);
      }
    }
  }

  /** Finds out whether the program knows its best mode, by a request that it refuses in any case. */
  async learn(attempt: (mode: MemoryRestoreMode) => Promise<void>): Promise<void> {
    for (let mode = this.#modes[0]; mode !== undefined; mode = this.#modes[0]) {
      const error = await attempt(mode).then(
        () => undefined,
        (cause: unknown) => cause,
      );
      if (!isUnknownMode(error)) return;
      this.#refuse(mode, 'this version does not have it');
    }
  }

  #refuse(mode: MemoryRestoreMode, why: string): void {
    // Several copies may find out at the same time.
    if (this.#modes[0] !== mode) return;
    this.#modes.shift();
    this.#refusals.push(`${mode}: ${why}`);
    this.#hasLogged = false;
  }
}
