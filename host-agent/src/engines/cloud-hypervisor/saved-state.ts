// The VMM's saved device state. Its format is private to the VMM, so it is read and changed only for a version that was
// tested. Each component's state is JSON within a text, so unchanged parts keep all digits of their numbers.
import { AppError } from '../../lib/errors.ts';
import { diskId } from './vm-config.ts';

/** Version for which the tests with real guests passed. */
const KNOWN_MAJOR = '53';
const DEVICES = 'device-manager';
const SECTOR_BYTES = 512;

/** Whether the saved state of this version has the known format. */
export function knowsSavedState(version: string): boolean {
  return version.split('.')[0] === KNOWN_MAJOR;
}

type Json = Record<string, unknown>;

export class SavedState {
  readonly #outer: Json;

  constructor(text: string) {
    this.#outer = JSON.parse(text) as Json;
  }

  /** The state of a component, by its path. AppError if the format is unknown. */
  read(...path: readonly string[]): string {
    const { state } = this.#data(path);
    if (typeof state !== 'string') throw unknownForm(`${path.join(' / ')} has no state`);
    return state;
  }

  write(path: readonly string[], state: string): void {
    this.#data(path).state = state;
  }

  toString(): string {
    return JSON.stringify(this.#outer);
  }

  #data(path: readonly string[]): Json {
    let part = this.#outer;
    for (const name of path) part = at(at(part, 'snapshots'), name);
    return at(part, 'snapshot_data');
  }
}

function at(value: Json, key: string): Json {
  const found = value[key];
  if (typeof found === 'object' && found !== null) return found as Json;
  throw unknownForm(`it has no ${key}`);
}

export function unknownForm(what: string): AppError {
  return new AppError('internal', `the saved state has a form that is not known: ${what}`, {
    stage: 'restore',
  });
}

/**
 * Changes disk sizes. The VMM takes each size from its saved state, not from the file. The guest reads it when its
 * driver binds the device, so only an unbound disk is changed. `sizes`: bytes of each disk, by its index in the spec.
 * AppError if the state has an unknown format.
 */
export function setFreeDiskSizes(state: SavedState, sizes: readonly number[]): void {
  for (const [index, size] of sizes.entries()) {
    const id = diskId(index);
    const { device_activated: isTaken } = parse(state.read(DEVICES, `_virtio-pci-${id}`), id);
    if (typeof isTaken !== 'boolean') throw unknownForm(`nothing says whether a driver has ${id}`);
    // The guest of a bound disk is notified of a new size by a request to the VMM.
    if (isTaken) continue;
    const disk = parse(state.read(DEVICES, id), id);
    const { config } = disk;
    const isKnown = typeof config === 'object' && config !== null && 'capacity' in config;
    if (!isKnown || config.capacity !== disk.disk_nsectors) throw unknownForm(`${id} has no size`);
    const sectors = Math.floor(size / SECTOR_BYTES);
    const changed = { ...disk, disk_nsectors: sectors, config: { ...config, capacity: sectors } };
    state.write([DEVICES, id], JSON.stringify(changed));
  }
}

function parse(text: string, id: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw unknownForm(`${id} is not an object`);
}
