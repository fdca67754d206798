// The device by which a host offers hardware virtualisation. That it is there says nothing about whether guests run.
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { cpus } from 'node:os';

export const KVM_PATH = '/dev/kvm';

/** Why no guest can run with it; undefined when one may. */
export async function kvmObstacle(path = KVM_PATH): Promise<string | undefined> {
  const device = await stat(path).catch(() => undefined);
  if (device === undefined) return `${path} is not there`;
  if (!device.isCharacterDevice()) return `${path} is not a device`;
  return access(path, constants.R_OK | constants.W_OK).then(
    () => undefined,
    () => `${path} is not accessible`,
  );
}

/** Another text when it is another device, or may be used by others. */
export async function readKvmFacts(path = KVM_PATH): Promise<string> {
  const device = await stat(path).catch(() => undefined);
  return JSON.stringify([await kvmObstacle(path), device?.rdev, device?.mode, device?.uid, device?.gid]);
}

/** Model of the host's CPU. A saved guest that ran on it can go on only on an equal one. */
export function hostCpu(): string {
  return cpus()[0]?.model.trim() ?? 'unknown';
}
