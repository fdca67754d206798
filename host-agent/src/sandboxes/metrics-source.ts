// Everything of this room at once, for those who only look at it.
import type PQueue from 'p-queue';
import type { Admission } from './admission.ts';
import type { Sandbox } from './sandbox.ts';
import type { Snapshots } from './snapshots.ts';
import type { Sweeps } from './sweeps.ts';
import type { Templates } from './templates.ts';

export type SandboxMetricsSource = {
  readonly sandboxes: ReadonlyMap<string, Sandbox>;
  readonly snapshots: Pick<Snapshots, 'owners'>;
  readonly templates: Pick<Templates, 'count' | 'lookups'>;
  readonly admission: Pick<Admission, 'refusals'>;
  /** Starts: those under way, and those that wait for their turn. */
  readonly startQueue: Pick<PQueue, 'size' | 'pending'>;
  /** Requests that will add sandboxes. */
  readonly starting: { readonly size: number };
  readonly sweeps: Pick<Sweeps, 'sandboxes'>;
};
