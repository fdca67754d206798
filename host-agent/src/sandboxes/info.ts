// The public description of a sandbox.
import type { SandboxRecord } from './record.ts';
import type { SandboxInfo } from './types.ts';

export function toInfo(id: string, record: SandboxRecord, workdir: string): SandboxInfo {
  const { options, createdAtMs, sourceSnapshotId, network } = record;
  const { allowlist = [] } = options.network ?? {};
  return {
    id,
    createdAt: new Date(createdAtMs),
    memoryMib: options.memoryMib,
    vcpus: options.vcpus,
    diskBytes: options.diskBytes,
    rootfs: { kind: options.rootfs.kind, name: options.rootfs.name },
    workdir,
    ...(sourceSnapshotId !== undefined && { sourceSnapshotId }),
    ...(network !== undefined && {
      network: { allowlist, guestIp: network.guestIp, gateway: network.gateway },
    }),
    ...(options.publish && { published: options.publish }),
  };
}
