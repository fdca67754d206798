// How a fork gets its memory: the best mode that the program and this host support, found by trying.
import type { Logger } from 'pino';
import { z } from 'zod';
import { toError } from '../../lib/errors.ts';
import type { ForkMemory } from '../engine.ts';
import { ApiError } from './api.ts';
import { knowsSavedState } from './saved-state.ts';
import type { MemoryRestoreMode } from './vm-config.ts';

const nameSchema = z.enum(['CopyOnWrite', 'MappedFile', 'OnDemand', 'Copy']);

export type MemoryMode = {
  readonly name: z.infer<typeof nameSchema>;
  readonly serves: Exclude<ForkMemory, 'auto'>;
};

/** Best first. */
const MODES: readonly MemoryMode[] = [
  // Pages stay shared with the source until they are written.
  { name: 'CopyOnWrite', serves: 'copy-on-write' },
  // The same for versions without CopyOnWrite, see mapped-memory.ts.
  { name: 'MappedFile', serves: 'copy-on-write' },
  // The fork runs at once; pages are loaded on first access, all others in the background.
  { name: 'OnDemand', serves: 'on-demand' },
  // All data is read before the fork runs.
  { name: 'Copy', serves: 'copy' },
];

/** The mode to request from the VMM. */
export function requestOf(name: MemoryMode['name']): MemoryRestoreMode {
  return name === 'MappedFile' ? 'Copy' : name;
}

/** The VMM refuses the request before it does anything, with the name of the unknown mode. */
function isUnknownMode(error: unknown): boolean {
  return error instanceof ApiError && error.says(/unknown variant/);
}

/** Why a mode cannot work on this host; undefined if the failure may have another cause. */
function obstacle(mode: MemoryMode, error: unknown): string | undefined {
  if (isUnknownMode(error)) return 'this version does not have it';
  const hasNoUserfaultfd = error instanceof ApiError && error.says(/on-demand restore failed|userfaultfd/i);
  if (mode.name === 'OnDemand' && hasNoUserfaultfd)
    return `userfaultfd cannot be used: ${toError(error).message}`;
  return undefined;
}

/** A mode that does not work on this host, in cached form. */
export const refusalSchema = z.object({ name: nameSchema, why: z.string() });
type RefusedMode = z.infer<typeof refusalSchema>;

type Refusal = { readonly mode: MemoryMode; readonly why: string };

export class MemoryModes {
  readonly #modes: MemoryMode[];
  #hasLogged = false;
  readonly #refusals: RefusedMode[] = [];

  constructor(wanted: ForkMemory) {
    this.#modes = MODES.filter(({ serves }) => wanted === 'auto' || wanted === serves);
  }

  /** Modes that failed on this host. */
  get refused(): readonly RefusedMode[] {
    return this.#refusals;
  }

  /** Takes over cached failures of this host. */
  recall(refused: readonly RefusedMode[]): void {
    for (const { name, why } of refused)
      for (const mode of this.#modes.filter((each) => each.name === name)) this.#refuse({ mode, why });
  }

  /** Why no mode is left; undefined if there is one. */
  get obstacle(): string | undefined {
    return this.#modes.length > 0
      ? undefined
      : `no memory mode works: ${this.#describeRefusals().join('; ')}`;
  }

  /** The mode that is tried first, and why each better one is not available. */
  describe(): string {
    const refused = this.#refusals.length === 0 ? '' : ` (${this.#describeRefusals().join('; ')})`;
    return `copies get their memory by ${this.#modes[0]?.name ?? 'no way at all'}${refused}`;
  }

  /** Calls `attempt` with the best mode, and with the next one if that mode does not work here. */
  async use(attempt: (mode: MemoryMode) => Promise<void>, log: Logger): Promise<void> {
    const refusals: Refusal[] = [];
    let lastError = new Error(this.obstacle);
    for (const mode of [...this.#modes]) {
      try {
        await attempt(mode);
        for (const refusal of refusals) this.#refuse(refusal);
        if (!this.#hasLogged)
          log.info({ mode: mode.name, refusals: this.#describeRefusals() }, this.describe());
        this.#hasLogged = true;
        return;
      } catch (error) {
        lastError = toError(error);
        const why = obstacle(mode, error);
        if (why !== undefined) this.#refuse({ mode, why });
        // The mode may or may not be the cause; the result of the next mode shows it.
        else if (mode.name === 'MappedFile' && error instanceof ApiError)
          refusals.push({ mode, why: error.message });
        else throw error;
      }
    }
    throw this.obstacle === undefined ? lastError : new Error(this.obstacle);
  }

  /** Finds out which modes the program supports, by requests that it refuses in any case. */
  async learn(version: string, attempt: (request: MemoryRestoreMode) => Promise<void>): Promise<void> {
    for (let mode = this.#modes[0]; mode !== undefined; mode = this.#modes[0]) {
      if (mode.name === 'MappedFile' && !knowsSavedState(version)) {
        this.#refuse({ mode, why: 'not tried with this version' });
        continue;
      }
      const error = await attempt(requestOf(mode.name)).then(
        () => undefined,
        (cause: unknown) => cause,
      );
      if (!isUnknownMode(error)) return;
      this.#refuse({ mode, why: 'this version does not have it' });
    }
  }

  #describeRefusals(): string[] {
    return this.#refusals.map(({ name, why }) => `${name}: ${why}`);
  }

  #refuse({ mode, why }: Refusal): void {
    const index = this.#modes.indexOf(mode);
    // Concurrent restores may find the same.
    if (index < 0) return;
    this.#modes.splice(index, 1);
    this.#refusals.push({ name: mode.name, why });
    this.#hasLogged = false;
  }
}
