// What the VM of a sandbox takes of the host: of its VMM process, its tap, its writable layer. No engine is asked.
import { statSync } from 'node:fs';
import type { Vm } from '../engines/engine.ts';
import { type LinkUsage, type ProcessUsage, readLinkUsage, readProcessUsage } from '../lib/process-usage.ts';
import type { SandboxRecord } from './record.ts';
import type { SandboxPaths } from './resources/paths.ts';

const SECTOR_BYTES = 512;

export type VmUsage = ProcessUsage & {
  /** Space that its writable layer takes. */
  readonly layerBytes: number;
  /** As its guest counts: received is what came to it. Absent: it has no network. */
  readonly network?: LinkUsage;
};

export type Used = {
  readonly vm: Pick<Vm, 'exit' | 'identity'>;
  readonly record: Pick<SandboxRecord, 'network'>;
  readonly paths: Pick<SandboxPaths, 'layerPath'>;
};

/** Undefined when its VMM is gone. Some 100 µs. */
export function readVmUsage({ vm, record, paths }: Used): VmUsage | undefined {
  if (vm.exit !== undefined) return undefined;
  const usage = readProcessUsage(vm.identity);
  if (usage === undefined) return undefined;
  const layerBytes = (statSync(paths.layerPath, { throwIfNoEntry: false })?.blocks ?? 0) * SECTOR_BYTES;
  const link = record.network && readLinkUsage(vm.identity.pid, record.network.tap);
  return { ...usage, layerBytes, ...(link && { network: turn(link) }) };
}

/** What the host's side of a tap sends is what the guest receives. */
function turn(link: LinkUsage): LinkUsage {
  return {
    receivedBytes: link.sentBytes,
    receivedPackets: link.sentPackets,
    sentBytes: link.receivedBytes,
    sentPackets: link.receivedPackets,
  };
}
