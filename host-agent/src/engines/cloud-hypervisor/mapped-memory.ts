// A copy whose memory is a private mapping of the saved file, for versions that cannot be asked for that. A memory zone
// in a file that is not shared is opened for reading and mapped copy-on-write; the saved state is changed so that
// nothing is read into it.
import { type SavedState, unknownForm } from './saved-state.ts';

type Json = Record<string, unknown>;

/** Name of the zone that the VMM makes when it is told of none. */
const ZONE = 'mem0';
const MEMORY = 'memory-manager';

/** Memory of its own again, of the same size, whatever it was before. */
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
 * Has nothing be read into memory, and puts each range at its place in the file, where they lie one behind the other. Changed
 * as text: its numbers may have more digits than ours. AppError when it has another form.
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
