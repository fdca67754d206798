// Creates sandboxes: one from a template or by a cold boot, or several forks of a snapshot; then commits them.
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { type Owner, sharerOf } from '../keys/index.ts';
import { enqueue } from '../lib/concurrency-limit.ts';
import { AppError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Admission } from './admission.ts';
import type { CommitHook } from './interface.ts';
import type { Metadata } from './metadata.ts';
import { isServiceFailure } from './ready-service.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { SavedGuest } from './saved/saved-guest.ts';
import { type CopySource, startSandbox } from './start.ts';
import { OwnBoot } from './template-making.ts';
import type { Templates } from './templates.ts';
import type { ResolvedSandboxOptions, SandboxInfo } from './types.ts';
import { reserveShared } from './usage.ts';

export type CreateInput = {
  /** Absent: a new one. */
  readonly id: string | undefined;
  readonly options: ResolvedSandboxOptions;
  readonly owner: Owner | undefined;
  readonly metadata: Metadata;
  readonly templates: Templates;
  readonly admission: Admission;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** Rejects as `startSandbox` does. */
export async function createSandbox(context: ResourceContext, input: CreateInput): Promise<Sandbox> {
  const { options, owner, metadata, templates, admission, startQueue, log, signal } = input;
  const id = input.id ?? newId('sbx');
  const common = { id, options, owner, metadata, log: log.child({ sandbox: id }), signal };
  const sharer = sharerOf(owner);
  const template = await templates.obtain(options, signal, sharer);
  const own = template instanceof OwnBoot ? template : undefined;
  const start = async (): Promise<Sandbox> => {
    if (template instanceof SavedGuest) {
      using _reservation = await reserveShared(admission, context.engines.current, template);
      try {
        const origin = { kind: 'saved', saved: template } as const;
        const sandbox = await template.use(() => startSandbox(context, { ...common, origin }));
        templates.copySucceeded(template, options, sharer);
        return sandbox;
      } catch (error) {
        signal.throwIfAborted();
        if (!templates.copyFailed(template, error)) throw error;
        log.warn({ sandbox: id }, 'template unusable, cold-booting');
      }
    }
    const boot = async (): Promise<Sandbox> => {
      try {
        return await startSandbox(context, { ...common, origin: { kind: 'boot', template: own } });
      } catch (error) {
        signal.throwIfAborted();
        // A save that failed may have ended the VM.
        if (own?.hasFailed !== true || isServiceFailure(error)) throw error;
        return startSandbox(context, { ...common, origin: { kind: 'boot' } });
      }
    };
    // If a boot with the client's arguments fails, they may be the cause, so the engine is not replaced.
    const sandbox = await (options.bootArgs === ''
      ? context.engines.bootOrReplaceEngine(boot, signal)
      : boot());
    await templates.bootSucceeded(options, sharer);
    return sandbox;
  };
  try {
    return await enqueue(startQueue, start, signal);
  } catch (error) {
    own?.abandon(error);
    throw error;
  }
}

export type Copy = {
  /** Absent: a new one. */
  readonly id: string | undefined;
  readonly options: ResolvedSandboxOptions;
  readonly metadata: Metadata;
};

export type ForkInput = {
  readonly of: CopySource;
  readonly saved: SavedGuest;
  readonly copies: readonly Copy[];
  /** Owner of the copies. */
  readonly owner: Owner | undefined;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** The first failure cancels the other copies, and all are removed. */
export async function forkGuest(context: ResourceContext, input: ForkInput): Promise<Sandbox[]> {
  const { saved, of, copies, owner, log } = input;
  const failed = new AbortController();
  const signal = AbortSignal.any([input.signal, failed.signal]);
  let firstFailure: unknown;
  const startOne = async ({ id = newId('sbx'), ...copy }: Copy): Promise<Sandbox> => {
    try {
      return await enqueue(
        input.startQueue,
        () =>
          startSandbox(context, {
            ...{ id, of, owner, ...copy },
            origin: { kind: 'saved', saved },
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
  const results = await saved.use(() => Promise.allSettled(copies.map(startOne)));
  const started = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  if (started.length === copies.length) return started;
  await Promise.all(started.map((sandbox) => sandbox.discard()));
  input.signal.throwIfAborted();
  throw firstFailure;
}

/** Commits all sandboxes or none. On failure or cancellation all of them are removed. */
export async function commitSandboxes<T extends readonly Sandbox[]>(
  { records, faults }: Pick<ResourceContext, 'records' | 'faults'>,
  sandboxes: T,
  signal: AbortSignal,
  commit?: CommitHook<readonly SandboxInfo[]>,
): Promise<T> {
  try {
    signal.throwIfAborted();
    const ready = sandboxes.map((sandbox) => ({ id: sandbox.id, ...sandbox.becomeReady() }));
    await records.putAll(ready, () => {
      for (const { event } of ready) event.persist();
      commit?.persist(sandboxes.map(({ info }) => info));
    });
    for (const sandbox of sandboxes) sandbox.announce();
    faults.reach('start.committed');
    // With a hook, another request already relies on them.
    if (commit === undefined) signal.throwIfAborted();
    return sandboxes;
  } catch (error) {
    await commit?.retract().catch(() => undefined);
    await Promise.allSettled(sandboxes.map((sandbox) => sandbox.discard()));
    throw error;
  }
}
