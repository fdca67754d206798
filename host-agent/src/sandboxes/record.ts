// What the registry keeps of a sandbox: enough to find, adopt or remove everything it has.
import type { VmmIdentity } from '../engines/engine.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type SandboxRecord = {
  readonly createdAtMs: number;
  readonly options: ResolvedSandboxOptions;
  readonly profileDigest: string;
  readonly incarnation: string;
  /** False until the agent answered. */
  readonly isReady: boolean;
  /** Null until the VMM was started. */
  readonly vmm: VmmIdentity | null;
};
