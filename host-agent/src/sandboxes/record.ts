// What the registry keeps of a sandbox: enough to find, adopt or remove everything it has.
import type { VmExit, VmmIdentity } from '../engines/engine.ts';
import type { Owner } from '../keys/index.ts';
import type { NetworkSlot } from '../network/index.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type SandboxRecord = {
  readonly createdAtMs: number;
  readonly options: ResolvedSandboxOptions;
  readonly sourceSnapshotId?: string;
  /** Whose key made it; absent: nobody's. */
  readonly owner?: Owner;
  readonly incarnation: string;
  /**
   * Whether a user may know of it. False while it is made and again while it is deleted: what a crash leaves then is
   * removed by the next start.
   */
  readonly isReady: boolean;
  readonly isDeleting?: boolean;
  /** Its addresses are nobody else's as long as this is here. */
  readonly network?: NetworkSlot;
  /** Null until the VMM was started. */
  readonly vmm: VmmIdentity | null;
  /** What its guest runs on, which a later daemon may not have any more: its snapshots need the same. */
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** How its VM ended by itself. */
  readonly exit?: VmExit;
};
