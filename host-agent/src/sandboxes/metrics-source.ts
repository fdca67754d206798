// What metrics read from this module.
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
  /** Starts in progress and queued starts. */
  readonly startQueue: Pick<PQueue, 'size' | 'pending'>;
  /** Requests in progress that will add sandboxes. */
  readonly starting: { readonly size: number };
  readonly sweeps: Pick<Sweeps, 'sandboxes'>;
};
