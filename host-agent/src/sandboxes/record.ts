// What the registry keeps of a sandbox: enough to find, adopt or remove everything it has.
import type { VmmIdentity } from '../engines/engine.ts';
import type { Profile } from '../images/profiles.ts';
import type { ResolvedSandboxOptions } from './types.ts';

/** The part of a profile that a sandbox needs, also long after the profile was baked anew. */
export type SandboxProfile = Pick<Profile, 'name' | 'digest' | 'rootfsPath' | 'env' | 'workdir'>;

export type SandboxRecord = {
  readonly createdAtMs: number;
  readonly options: ResolvedSandboxOptions;
  readonly profile: SandboxProfile;
  readonly sourceSnapshotId?: string;
  readonly incarnation: string;
  /** False until the agent answered. */
  readonly isReady: boolean;
  /** Null until the VMM was started. */
  readonly vmm: VmmIdentity | null;
};
