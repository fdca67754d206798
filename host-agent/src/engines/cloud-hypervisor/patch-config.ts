// Makes the configuration that was saved with a VM that of its copy: other files, the same guest.
import { AppError } from '../../lib/errors.ts';
import type { VmSpec } from '../engine.ts';
import type { CloudHypervisorFiles } from './files.ts';
import { diskId, landlockRules, netId } from './vm-config.ts';

type Json = Record<string, unknown>;

export type PatchOptions = {
  readonly spec: VmSpec;
  readonly files: CloudHypervisorFiles;
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
  asObject(config.serial, 'serial').file = files.earlyConsolePath;
  const payload = asObject(config.payload, 'payload');
  // Opened again though it is not used; the kernel is not, and must not be found when the guest resets itself.
  payload.initramfs = spec.initramfsPath;
  payload.kernel = files.startKernelPath;
  const { nets = [] } = spec;
  const saved = asList(config.net);
  if (saved.length !== nets.length) throw misfit(`${saved.length} network devices, not ${nets.length}`);
  // The guest keeps the address that it was saved with: it is in its driver's memory.
  for (const [index, { tap }] of nets.entries()) {
    const net = saved.find(({ id }) => id === netId(index));
    if (net === undefined) throw misfit(`no ${netId(index)}`);
    net.tap = tap;
    // The tap of the copy has an address of its own, which only a privileged VMM could change.
    delete net.host_mac;
  }
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
