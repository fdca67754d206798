// The life of a sandbox: one table of what may follow what.
import { AppError } from '../lib/errors.ts';

export type SandboxState =
  | 'running'
  /** Its VM ended by itself; it stays listed until deleted. */
  | 'failed'
  | 'deleting'
  | 'deleted';

const TRANSITIONS: Readonly<Record<SandboxState, readonly SandboxState[]>> = {
  running: ['failed', 'deleting'],
  failed: ['deleting'],
  deleting: ['deleted'],
  deleted: [],
};

/** Returns `to`; AppError `internal` when the table does not allow it. */
export function checkTransition(from: SandboxState, to: SandboxState): SandboxState {
  if (TRANSITIONS[from].includes(to)) return to;
  throw new AppError('internal', `a sandbox cannot go from ${from} to ${to}`);
}
