// A sandbox as the fake ones show themselves.
import type { SandboxInfo } from '../../host-agent/src/sandboxes/types.ts';

export function fakeInfo(id: string): SandboxInfo {
  return {
    id,
    labels: {},
    envNames: [],
    state: 'running',
    createdAt: new Date('2024-05-06T07:08:09.010Z'),
    lastUsedAt: new Date('2024-05-06T07:08:09.010Z'),
    timeoutS: 0,
    timeoutAction: 'delete',
    autoResume: true,
    memoryMib: 512,
    vcpus: 1,
    diskBytes: 2 ** 32,
    rootfs: { kind: 'profile', name: 'base' },
    workdir: `/data/sandboxes/${id}`,
  };
}
