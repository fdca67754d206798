// Starts several copies of one saved guest: all of them or none.
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Owner } from '../keys/index.ts';
import { enqueue } from '../lib/enqueue.ts';
import { AppError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { PublishedPort } from '../network/index.ts';
import { inheritOptions } from './inherit.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import { startSandbox } from './start.ts';

export type ForkInput = {
  readonly snapshotId: string;
  readonly saved: SavedGuest;
  readonly count: number;
  /** Of the only copy. */
  readonly publish: readonly PublishedPort[];
  /** Owner of the copies. */
  readonly owner: Owner | undefined;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** The first failure cancels the other copies, and all are removed. */
export async function forkGuest(context: ResourceContext, input: ForkInput): Promise<Sandbox[]> {
  const { saved, snapshotId, count, publish, owner, log } = input;
  const { manifest } = saved;
  const failed = new AbortController();
  const signal = AbortSignal.any([input.signal, failed.signal]);
  const options = inheritOptions(manifest.options, publish);
  let firstFailure: unknown;
  const startOne = async (): Promise<Sandbox> => {
    const id = newId('sbx');
    try {
      return await enqueue(
        input.startQueue,
        () =>
          startSandbox(context, {
            id,
            options,
            origin: { kind: 'saved', saved },
            sourceSnapshotId: snapshotId,
            owner,
            log: log.child({ sandbox: id }),
            signal,
          }),
        signal,
      );
    } catch (error) {
      firstFailure ??= error;
      failed.abort(new AppError('cancelled', 'another copy could not be started'));
      throw error;
    }
  };
  const results = await saved.use(() => Promise.allSettled(Array.from({ length: count }, startOne)));
  const started = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  if (started.length === count) return started;
  await Promise.all(started.map((sandbox) => sandbox.discard()));
  input.signal.throwIfAborted();
  throw firstFailure;
}
