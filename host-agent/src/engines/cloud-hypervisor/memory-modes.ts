// How a fork gets its memory: the best mode that the program and this host support, found by trying.

import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Logger } from 'pino';
import { z } from 'zod';
import { toError } from '../../lib/errors.ts';
import type { ForkMemory } from '../engine.ts';
import {
  assertReadable,
  copyAnonymous,
  copyMappedFile,
  copyOwnPages,
  type FinishCopy,
  findAnonymous,
  type Mapping,
  privateMappings,
} from '../mapping.ts';
import { logOwnPages, type PageLogOptions } from '../page-log.ts';
import { ApiError } from './api.ts';
import { MEMORY_FILE } from './saved-files.ts';
import { knowsSavedState, type SavedState, unknownForm } from './saved-state.ts';
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

// Copy-on-write forks for VMM versions that have no such mode. A memory zone backed by a non-shared file is opened for
// reading and mapped copy-on-write. The saved state is changed so that the VMM reads nothing into it. When such a fork
// is saved, the daemon copies its memory while the guest is paused, because the VMM would write every page, zeros
// included. The same holds for a guest that was booted, whose memory is anonymous.

type Json = Record<string, unknown>;

/** Name of the VMM's default memory zone. */
const ZONE = 'mem0';
/** Up to this size, the guest's memory is one range: 3 GiB below the devices of x86, 64 MiB less on arm64. */
const MAX_ONE_RANGE_BYTES = 3008 * 2 ** 20;
const MEMORY = 'memory-manager';

/** Resets the configuration to anonymous memory of the same size. */
export function setPlainMemory(config: Json): void {
  const memory = config.memory as Json;
  memory.size = memoryBytes(config);
  delete memory.zones;
}

export function setMappedMemory(config: Json, path: string): void {
  const memory = config.memory as Json;
  const size = memoryBytes(config);
  memory.size = 0;
  memory.zones = [{ id: ZONE, size, file: path, shared: false }];
}

function memoryBytes(config: Json): number {
  const memory = config.memory as Json;
  const zones = Array.isArray(memory.zones) ? (memory.zones as Json[]) : [];
  return zones.reduce((sum, { size }) => sum + Number(size), Number(memory.size));
}

/**
 * Removes the memory ranges that the VMM would read, and sets each range's file offset (ranges are contiguous in the
 * file). Edited as text, because its numbers may exceed JavaScript's precision. AppError if the format is unknown.
 */
export function dropMemoryRanges(state: SavedState): void {
  const text = state.read(MEMORY);
  const ranges = /"memory_ranges":\{"data":\[[^\]]*\]\}/;
  const mappings = /"guest_ram_mappings":\[([^\]]*)\]/;
  if (!ranges.test(text) || !mappings.test(text)) throw unknownForm('its memory has no ranges');
  let offset = 0;
  const changed = text.replace(ranges, '"memory_ranges":{"data":[]}').replace(mappings, (all) =>
    all.replace(/\{[^{}]*\}/g, (mapping) => {
      const size = Number(/"size":(\d+)/.exec(mapping)?.[1]);
      if (!Number.isSafeInteger(size) || !/"file_offset":\d+/.test(mapping))
        throw unknownForm('a range of its memory has no size');
      const placed = mapping.replace(/"file_offset":\d+/, `"file_offset":${offset}`);
      offset += size;
      return placed;
    }),
  );
  state.write([MEMORY], changed);
}

/**
 * Starts a copy of a fork's memory to the new file `target`. Undefined if the memory is not mapped as expected:
 * contiguous private mappings of exactly the guest's memory size.
 */
export async function beginMappedGuest(
  pid: number,
  memoryBytes: number,
  target: string,
): Promise<FinishCopy | undefined> {
  const mappings = findMemory(await readFile(`/proc/${pid}/maps`, 'utf8'), memoryBytes);
  const first = mappings?.[0];
  if (mappings === undefined || first === undefined) return undefined;
  await assertReadable(pid, first);
  await copyMappedFile(pid, first, memoryBytes, target);
  return () => copyOwnPages(pid, mappings, target);
}

/**
 * The same for a guest that was booted. Undefined if its memory is not one anonymous mapping of exactly its size:
 * several ranges may be merged there in any order.
 */
export async function beginBootedGuest(
  pid: number,
  memoryBytes: number,
  target: string,
): Promise<FinishCopy | undefined> {
  if (memoryBytes > MAX_ONE_RANGE_BYTES) return undefined;
  const mapping = findAnonymous(await readFile(`/proc/${pid}/maps`, 'utf8'), memoryBytes);
  if (mapping === undefined) return undefined;
  // Not every kernel lets an unprivileged daemon read it after a restart.
  await assertReadable(pid, mapping);
  return () => copyAnonymous(pid, mapping, target);
}

/** The same for a fork whose memory file is its own: only what differs from it is written, to the new file `target`. */
export async function beginMappedLog(
  pid: number,
  log: Omit<PageLogOptions, 'pid' | 'mappings'>,
): Promise<FinishCopy | undefined> {
  const mappings = findMemory(await readFile(`/proc/${pid}/maps`, 'utf8'), log.memoryBytes);
  const [first] = mappings ?? [];
  if (mappings === undefined || first === undefined) return undefined;
  await assertReadable(pid, first);
  return () => logOwnPages({ ...log, pid, mappings });
}

/** From the text of /proc/<pid>/maps. A large guest has two mappings, because of the address hole below 4 GiB. */
export function findMemory(maps: string, memoryBytes: number): readonly Mapping[] | undefined {
  const mappings = privateMappings(maps)
    .filter(({ name }) => basename(name) === MEMORY_FILE)
    .sort((a, b) => a.fileOffset - b.fileOffset);
  let end = 0;
  for (const { fileOffset, sizeBytes } of mappings) {
    if (fileOffset !== end) return undefined;
    end += sizeBytes;
  }
  return end === memoryBytes ? mappings : undefined;
}
