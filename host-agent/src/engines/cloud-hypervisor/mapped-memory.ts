// Copy-on-write forks for VMM versions that have no such mode. A memory zone backed by a non-shared file is opened for
// reading and mapped copy-on-write. The saved state is changed so that the VMM reads nothing into it. When such a fork
// is saved, the daemon copies its memory while the guest is paused, because the VMM would write every page, zeros
// included. The same holds for a guest that was booted, whose memory is anonymous.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
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
import { MEMORY_FILE } from './saved-files.ts';
import { type SavedState, unknownForm } from './saved-state.ts';

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
  const mapping = await findBooted(pid, memoryBytes);
  return mapping && (() => copyAnonymous(pid, mapping, target));
}

async function findBooted(pid: number, memoryBytes: number): Promise<Mapping | undefined> {
  if (memoryBytes > MAX_ONE_RANGE_BYTES) return undefined;
  const mapping = findAnonymous(await readFile(`/proc/${pid}/maps`, 'utf8'), memoryBytes);
  // Not every kernel lets an unprivileged daemon read it after a restart.
  if (mapping !== undefined) await assertReadable(pid, mapping);
  return mapping;
}

type LogOptions = Omit<PageLogOptions, 'pid' | 'mappings'>;

/** The same as a log of what differs from an earlier copy, to the new file `target`. */
export async function beginBootedLog(pid: number, log: LogOptions): Promise<FinishCopy | undefined> {
  const mapping = await findBooted(pid, log.memoryBytes);
  return mapping && (() => logOwnPages({ ...log, pid, mappings: [mapping] }));
}

/** The same for a fork: what differs from its own memory file, or from an earlier copy. */
export async function beginMappedLog(pid: number, log: LogOptions): Promise<FinishCopy | undefined> {
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
