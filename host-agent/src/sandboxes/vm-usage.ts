// Resource usage of a sandbox's VM on the host, read from its VMM process, tap and writable layer without the engine.
import { statSync } from 'node:fs';
import type { Vm } from '../engines/engine.ts';
import { type LinkUsage, type ProcessUsage, readLinkUsage, readProcessUsage } from '../lib/process-usage.ts';
import type { SandboxRecord } from './record.ts';
import type { SandboxPaths } from './resources/paths.ts';

const SECTOR_BYTES = 512;

export type VmUsage = ProcessUsage & {
  /** Disk space of its writable layer. */
  readonly layerBytes: number;
  /** From the guest's side: received is inbound to the guest. Absent: it has no network. */
  readonly network?: LinkUsage;
};

export type UsageSource = {
  readonly vm: Pick<Vm, 'exit' | 'identity'>;
  readonly record: Pick<SandboxRecord, 'network'>;
  readonly paths: Pick<SandboxPaths, 'layerPath'>;
};

/** Undefined when its VMM has exited. Takes some 100 µs. */
export function readVmUsage({ vm, record, paths }: UsageSource): VmUsage | undefined {
  if (vm.exit !== undefined) return undefined;
  const usage = readProcessUsage(vm.identity);
  if (usage === undefined) return undefined;
  const layerBytes = (statSync(paths.layerPath, { throwIfNoEntry: false })?.blocks ?? 0) * SECTOR_BYTES;
  const link = record.network && readLinkUsage(vm.identity.pid, record.network.tap);
  return { ...usage, layerBytes, ...(link && { network: toGuestSide(link) }) };
}

/** Bytes that the host's side of a tap sends are received by the guest. */
function toGuestSide(link: LinkUsage): LinkUsage {
  return {
    receivedBytes: link.sentBytes,
    receivedPackets: link.sentPackets,
    sentBytes: link.receivedBytes,
    sentPackets: link.receivedPackets,
  };
}
