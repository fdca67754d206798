// The KVM device. Its existence does not prove that guests run.
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { cpus } from 'node:os';

export const KVM_PATH = '/dev/kvm';

/** Why the device cannot be used; undefined if it may work. */
export async function kvmObstacle(path = KVM_PATH): Promise<string | undefined> {
  const device = await stat(path).catch(() => undefined);
  if (device === undefined) return `${path} is not there`;
  if (!device.isCharacterDevice()) return `${path} is not a device`;
  return access(path, constants.R_OK | constants.W_OK).then(
    () => undefined,
    () => `${path} is not accessible`,
  );
}

/** A text that changes with the device or its permissions. */
export async function readKvmFacts(path = KVM_PATH): Promise<string> {
  const device = await stat(path).catch(() => undefined);
  return JSON.stringify([await kvmObstacle(path), device?.rdev, device?.mode, device?.uid, device?.gid]);
}

/** Model of the host's CPU. A saved guest can be restored only on an equal one. */
export function hostCpu(): string {
  return cpus()[0]?.model.trim() ?? 'unknown';
}
