// The registry record of a sandbox: enough to find, adopt or remove everything that belongs to it.
import type { VmExit, VmmIdentity } from '../engines/engine.ts';
import type { Owner } from '../keys/index.ts';
import type { NetworkSlot } from '../network/index.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type SandboxRecord = {
  readonly createdAtMs: number;
  readonly options: ResolvedSandboxOptions;
  readonly sourceSnapshotId?: string;
  /** Owner of the key that created it; absent: no owner. */
  readonly owner?: Owner;
  readonly incarnation: string;
  /**
   * Whether it is visible to users. False during its creation and deletion; after a crash the next start removes such
   * a sandbox.
   */
  readonly isReady: boolean;
  readonly isDeleting?: boolean;
  /** Its addresses are reserved while this is set. */
  readonly network?: NetworkSlot;
  /** Null until the VMM was started. */
  readonly vmm: VmmIdentity | null;
  /**
   * Engine properties that its guest depends on; a later daemon may have different ones, and its snapshots need the
   * same.
   */
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** How its VM exited unexpectedly. */
  readonly exit?: VmExit;
};
