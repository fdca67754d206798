// How the memory of a copy comes from its source: the best way that the program and this host have, found by asking.
import type { Logger } from 'pino';
import { z } from 'zod';
import { toError } from '../../lib/errors.ts';
import type { ForkMemory } from '../engine.ts';
import { ApiError } from './api-error.ts';
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
  // The same for versions that do not offer it, see mapped-memory.ts.
  { name: 'MappedFile', serves: 'copy-on-write' },
  // The copy runs at once; pages come when they are needed, all others behind its back.
  { name: 'OnDemand', serves: 'on-demand' },
  // Everything that is not a hole is read before the copy runs.
  { name: 'Copy', serves: 'copy' },
];

/** What the VMM is asked for in a mode of this name. */
export function requestOf(name: MemoryMode['name']): MemoryRestoreMode {
  return name === 'MappedFile' ? 'Copy' : name;
}

/** Refused before anything is done, with the name of the mode that it does not know. */
function isUnknownMode(error: unknown): boolean {
  return error instanceof ApiError && error.says(/unknown variant/);
}

/** Why a mode cannot be used here at all; undefined when the failure may have another reason. */
function obstacle(mode: MemoryMode, error: unknown): string | undefined {
  if (isUnknownMode(error)) return 'this version does not have it';
  const hasNoUserfaultfd = error instanceof ApiError && error.says(/on-demand restore failed|userfaultfd/i);
  if (mode.name === 'OnDemand' && hasNoUserfaultfd)
    return `userfaultfd cannot be used: ${toError(error).message}`;
  return undefined;
}

/** A mode that does not work here, for those who remember it. */
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

  /** Those that turned out not to work here. */
  get refused(): readonly RefusedMode[] {
    return this.#refusals;
  }

  /** Takes over what others found out on this host. */
  recall(refused: readonly RefusedMode[]): void {
    for (const { name, why } of refused)
      for (const mode of this.#modes.filter((each) => each.name === name)) this.#refuse({ mode, why });
  }

  /** Why there is no mode left; undefined when there is one. */
  get obstacle(): string | undefined {
    return this.#modes.length > 0
      ? undefined
      : `no memory mode works: ${this.#describeRefusals().join('; ')}`;
  }

  /** The mode that would be tried first, and why none before it. */
  describe(): string {
    const refused = this.#refusals.length === 0 ? '' : ` (${this.#describeRefusals().join('; ')})`;
    return `copies get their memory by ${this.#modes[0]?.name ?? 'no way at all'}${refused}`;
  }

  /** Calls `attempt` with the best mode, and with the next when that one turns out not to work here. */
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
        // Its reason may be the mode or not: that shows in whether the next one works.
        else if (mode.name === 'MappedFile' && error instanceof ApiError)
          refusals.push({ mode, why: error.message });
        else throw error;
      }
    }
    throw this.obstacle === undefined ? lastError : new Error(this.obstacle);
  }

  /** Finds out which mode the program knows, by requests that it refuses in any case. */
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
    // Several copies may find out at the same time.
    if (index < 0) return;
    this.#modes.splice(index, 1);
    this.#refusals.push({ name: mode.name, why });
    this.#hasLogged = false;
  }
}
