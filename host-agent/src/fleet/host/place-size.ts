// Whether a sandbox fits its place.
import { DEFAULT_MEMORY_MIB, DEFAULT_VCPUS } from '@sandboxd/api';
import type { PlacedRequest, PlacedSize } from '../../http/index.ts';
import { AppError } from '../../lib/errors.ts';
import type { PlacePod } from '../kubernetes/pods.ts';

/** As gateways have them, who do not know the settings of hosts. */
export const DEFAULTS: PlacedSize = { vcpus: DEFAULT_VCPUS, memoryMib: DEFAULT_MEMORY_MIB };

export function withDefaults({ vcpus, memoryMib }: PlacedRequest['size']): PlacedSize {
  return { vcpus: vcpus ?? DEFAULTS.vcpus, memoryMib: memoryMib ?? DEFAULTS.memoryMib };
}

export function isFitting({ vcpus, memoryMib, isCounted }: PlacePod, size: PlacedSize): boolean {
  return isCounted && size.vcpus <= vcpus && size.memoryMib <= memoryMib;
}

/** AppError conflict when the place is smaller than the sandbox, or the engine counts it for smaller. */
export function assertFits({ id, vcpus, memoryMib, isCounted }: PlacePod, size: PlacedSize): void {
  if (!isCounted)
    throw new AppError('conflict', `the pod of the place ${id} requests another size than it had`);
  if (size.vcpus <= vcpus && size.memoryMib <= memoryMib) return;
  throw new AppError(
    'conflict',
    `the place ${id} has ${vcpus} vCPUs and ${memoryMib} MiB; the sandbox needs ${size.vcpus} and ${size.memoryMib}`,
  );
}
