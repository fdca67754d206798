// Adapts the configuration that was saved with a VM for a fork: other files, the same guest.
import { AppError } from '../../lib/errors.ts';
import type { VmSpec } from '../engine.ts';
import type { CloudHypervisorFiles } from './files.ts';
import { diskId, landlockRules, NET_ID } from './vm-config.ts';

type Json = Record<string, unknown>;

export type PatchOptions = {
  readonly spec: VmSpec;
  readonly files: CloudHypervisorFiles;
  readonly hasLandlock: boolean;
  readonly isDirect: boolean;
};

/**
 * Changes paths in place and leaves everything else, including unknown keys, as the VMM wrote it. AppError internal if
 * the saved VM does not match the spec.
 */
export function patchConfig(config: Json, { spec, files, hasLandlock, isDirect }: PatchOptions): void {
  const disks = asList(config.disks);
  if (disks.length !== spec.disks.length) throw misfit(`${disks.length} disks, not ${spec.disks.length}`);
  for (const [index, { path, isReadOnly }] of spec.disks.entries()) {
    const disk = disks.find(({ id }) => id === diskId(index));
    if (disk === undefined) throw misfit(`no ${diskId(index)}`);
    disk.path = path;
    disk.direct = isDirect && !isReadOnly;
  }
  asObject(config.vsock, 'vsock').socket = files.vsockPath;
  asObject(config.serial, 'serial').file = files.earlyConsolePath;
  const payload = asObject(config.payload, 'payload');
  // The VMM opens the initramfs again although it is not used. The kernel path must not exist, so that a guest reset
  // cannot boot.
  payload.initramfs = spec.initramfsPath;
  payload.kernel = files.startKernelPath;
  patchNet(asList(config.net), spec);
  config.landlock_enable = hasLandlock;
  if (hasLandlock) config.landlock_rules = landlockRules(files, spec);
  else delete config.landlock_rules;
}

/** Whether the saved guest has a network device. */
export function hasNet(config: Json): boolean {
  return asList(config.net).length > 0;
}

/** A device that the saved guest does not have is added to the fork later. */
function patchNet(saved: readonly Json[], { net }: VmSpec): void {
  for (const device of saved) {
    if (device.id !== NET_ID) throw misfit(`a network device ${JSON.stringify(device.id)}`);
    if (net === undefined) throw misfit('a network device');
    // The guest keeps the saved address until its agent sets a new one.
    device.tap = net.tap;
    // The fork's tap has an address of its own, and only a privileged VMM could change it.
    delete device.host_mac;
  }
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
