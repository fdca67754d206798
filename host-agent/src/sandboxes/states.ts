// The states of a sandbox, and the table of allowed transitions.
import { AppError } from '../lib/errors.ts';

export type SandboxState =
  | 'running'
  /** Its VM exited unexpectedly; the sandbox is listed until it is deleted. */
  | 'failed'
  | 'deleting'
  | 'deleted';

const TRANSITIONS: Readonly<Record<SandboxState, readonly SandboxState[]>> = {
  running: ['failed', 'deleting'],
  failed: ['deleting'],
  deleting: ['deleted'],
  deleted: [],
};

/** Returns `to`. AppError `internal` when the table does not allow the transition. */
export function checkTransition(from: SandboxState, to: SandboxState): SandboxState {
  if (TRANSITIONS[from].includes(to)) return to;
  throw new AppError('internal', `a sandbox cannot go from ${from} to ${to}`);
}
