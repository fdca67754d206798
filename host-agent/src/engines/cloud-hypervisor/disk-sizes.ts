// Disks of other sizes than the saved VM had. The VMM has the size of each in its saved state and believes that, not the file.
// A guest reads it when its driver takes the device: of a disk that no driver has it is changed, and nobody knew another.
import { type SavedState, unknownForm } from './saved-state.ts';
import { diskId } from './vm-config.ts';

const DEVICES = 'device-manager';
const SECTOR_BYTES = 512;

/** `sizes`: bytes of each disk, by its index in the spec. AppError when the state has another form. */
export function setFreeDiskSizes(state: SavedState, sizes: readonly number[]): void {
  for (const [index, size] of sizes.entries()) {
    const id = diskId(index);
    const { device_activated: isTaken } = parse(state.read(DEVICES, `_virtio-pci-${id}`), id);
    if (typeof isTaken !== 'boolean') throw unknownForm(`nothing says whether a driver has ${id}`);
    // Its guest is told of a new size by a request to the VMM.
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
