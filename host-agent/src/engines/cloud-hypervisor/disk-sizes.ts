// Changes disk sizes in a saved state. The VMM takes each size from its saved state, not from the file. The guest reads
// it when its driver binds the device, so the size of an unbound disk can be changed.
import { type SavedState, unknownForm } from './saved-state.ts';
import { diskId } from './vm-config.ts';

const DEVICES = 'device-manager';
const SECTOR_BYTES = 512;

/** `sizes`: bytes of each disk, by its index in the spec. AppError if the state has an unknown format. */
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
  throw unknownForm(`${id} is no object`);
}
