// What a host knows of a sandbox that leaves it.
import { AppError } from '../../lib/errors.ts';

export type DepartureRecord = {
  /** Tells this departure from others of the same sandbox. */
  readonly departure: string;
  /** With which this host claims it. */
  readonly token: string;
  readonly phase: 'sending' | 'offered';
  readonly wasRunning: boolean;
  readonly atMs: number;
  /** Name of the snapshot store that has it. */
  readonly store?: string;
  /** It is offered as changes of a copy, which hosts of earlier versions refuse. */
  readonly hasChanges?: true;
};

/** AppError conflict: another store says whose it is. */
export function assertStore({ store }: DepartureRecord, own: string | undefined, id: string): void {
  if (own !== undefined && (store === undefined || store === own)) return;
  const which = store === undefined ? '' : ` ${store}`;
  throw new AppError(
    'conflict',
    `sandbox ${id} was offered to other hosts in the snapshot store${which}, which this host is not set to use; ` +
      'it stays paused until the settings name that store again (snapshot_store)',
  );
}
