// A sandbox as the fake ones show themselves, and the bytes that they answer.
import type { FileDescription } from '../../host-agent/src/guest/file-description.ts';
import type { PullStream } from '../../host-agent/src/lib/byte-queue.ts';
import type { ParkedSandboxes } from '../../host-agent/src/sandboxes/interface.ts';
import type { SandboxInfo } from '../../host-agent/src/sandboxes/types.ts';

export const FILE: FileDescription = {
  path: Buffer.from('name'),
  type: 'file',
  mode: 0o644,
  sizeBytes: 0,
  modifiedAtMs: 0,
  uid: 0,
  gid: 0,
  user: 'root',
  links: 1,
  version: '1.2',
};

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

/** The pieces in turn; an Error among them is what the outflow rejects with. */
export function outflow(...pieces: readonly (string | Buffer | Error)[]): PullStream {
  const rest = [...pieces];
  return {
    async next() {
      const piece = rest.shift();
      if (piece instanceof Error) throw piece;
      return piece === undefined ? undefined : { bytes: Buffer.from(piece), release: () => {} };
    },
    cancel: () => {},
  };
}

export const NOTHING_PARKED: ParkedSandboxes = {
  takeOver: async () => undefined,
  describe: async () => undefined,
  get: async () => Promise.reject(new Error('nothing is parked')),
  list: async () => ({ found: [] }),
  delete: async () => undefined,
  deleteAll: async () => ({ deleted: [], failed: [] }),
};
