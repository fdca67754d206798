// Makes the configuration that was saved with a VM that of its copy: other files, the same guest.
import { AppError } from '../../lib/errors.ts';
import type { VmSpec } from '../engine.ts';
import type { VmmFiles } from './files.ts';
import { diskId, landlockRules } from './vm-config.ts';

type Json = Record<string, unknown>;

export type PatchOptions = {
  readonly spec: VmSpec;
  readonly files: VmmFiles;
  readonly hasLandlock: boolean;
};

/**
 * Changes paths in place and leaves everything else as the VMM wrote it, keys that we do not know included. AppError
 * internal when the saved VM is not of this spec.
 */
export function patchConfig(config: Json, { spec, files, hasLandlock }: PatchOptions): void {
  const disks = asList(config.disks);
  if (disks.length !== spec.disks.length) throw misfit(`${disks.length} disks, not ${spec.disks.length}`);
  for (const [index, { path }] of spec.disks.entries()) {
    const disk = disks.find(({ id }) => id === diskId(index));
    if (disk === undefined) throw misfit(`no ${diskId(index)}`);
    disk.path = path;
  }
  asObject(config.vsock, 'vsock').socket = files.vsockPath;
  asObject(config.serial, 'serial').file = files.startConsolePath;
  const payload = asObject(config.payload, 'payload');
  // Opened again though it is not used; the kernel is not, and must not be found when the guest resets itself.
  payload.initramfs = spec.initramfsPath;
  payload.kernel = files.startKernelPath;
  // The tap of the copy has an address of its own, which only a privileged VMM could change.
  for (const net of asList(config.net)) delete net.host_mac;
  config.landlock_enable = hasLandlock;
  if (hasLandlock) config.landlock_rules = landlockRules(files);
  else delete config.landlock_rules;
}

function asList(value: unknown): Json[] {
  return Array.isArray(value) ? (value as Json[]) : [];
}

function asObject(value: unknown, name: string): Json {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json;
  throw misfit(`no ${name}`);
}

function misfit(what: string): AppError {
  return new AppError('internal', `the saved VM does not fit this sandbox: it has ${what}`, {
    stage: 'restore',
  });
}
