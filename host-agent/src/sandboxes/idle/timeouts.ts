// The timeouts of one sandbox: the end of its lifetime, and of an idle time. They count while it is running; a lifetime
// that deletes it counts while it is paused, too. A change of its record or state restarts what it changes.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { startTimer } from '@sandboxd/proto';
import { hasOpenConnection } from '../../network/index.ts';
import type { SnapshotRequest } from '../interface.ts';
import { expiryOf } from '../metadata.ts';
import { pausesAtEnd, type SandboxRecord } from '../record.ts';
import type { Directories, ResourceContext } from '../resources/resource.ts';
import type { RunningVm } from '../running-vm.ts';
import type { IdleRule, SnapshotInfo } from '../types.ts';
import type { UsageSource } from '../vm-usage.ts';
import { IdleWatch } from './idle-watch.ts';
import { SandboxUse } from './sandbox-use.ts';

/** What a sandbox needs from its manager. */
export interface SandboxOwner<S> {
  snapshot(sandbox: S, signal?: AbortSignal, by?: SnapshotRequest): Promise<SnapshotInfo>;
  /** Its timeout_s has passed. */
  expired(sandbox: S): void;
  /** No client used it for its idle_timeout_s; `signal` fires when a client uses it again. */
  idle(sandbox: S, signal: AbortSignal): Promise<void>;
}

type Timed = UsageSource & {
  readonly id: string;
  readonly record: SandboxRecord;
  readonly running: RunningVm | undefined;
};

export class Timeouts<S extends Timed> {
  readonly use: SandboxUse;
  readonly #sandbox: S;
  readonly #context: Pick<ResourceContext, 'directories' | 'idle'>;
  #owner: SandboxOwner<S> | undefined;
  #expiresAtMs: number | undefined;
  #rule: IdleRule | undefined;
  #endLifetime: () => void = () => undefined;
  #isStopped = false;

  constructor(
    sandbox: S,
    context: Pick<ResourceContext, 'directories' | 'idle'>,
    { createdAtMs }: Pick<SandboxRecord, 'createdAtMs'>,
  ) {
    this.#sandbox = sandbox;
    this.#context = context;
    this.use = createUse(sandbox.id, context.directories, createdAtMs);
  }

  start(owner: SandboxOwner<S>): void {
    this.#owner = owner;
    this.apply();
  }

  /** Restarts what differs from before. */
  apply(): void {
    const [sandbox, owner] = [this.#sandbox, this.#owner];
    if (this.#isStopped || owner === undefined) return;
    const { record, running } = sandbox;
    const isAsleep = running === undefined;
    const expiresAtMs = isAsleep && pausesAtEnd(record) ? undefined : expiryOf(record);
    if (expiresAtMs !== this.#expiresAtMs) {
      this.#endLifetime();
      this.#expiresAtMs = expiresAtMs;
      if (expiresAtMs !== undefined) {
        const expired = () => owner.expired(sandbox);
        this.#endLifetime = startTimer(expiresAtMs - Date.now(), expired, { isUnref: true });
      }
    }
    const rule = isAsleep ? undefined : record.options.idle;
    if (isDeepStrictEqual(rule, this.#rule)) return;
    this.#rule = rule;
    const idle = (signal: AbortSignal) => owner.idle(sandbox, signal);
    this.use.watch(rule && (() => watchIdle(sandbox, this.#context, rule, idle)));
  }

  /** `isGone`: the stored state is removed. */
  stop(isGone: boolean): void {
    this.#isStopped = true;
    this.#endLifetime();
    this.use.stop(isGone);
  }
}

/** Outside the directories of sandboxes, where their VMMs can write. */
const idleRoot = ({ runDir }: Directories): string => join(runDir, 'idle');
const usesRoot = ({ runDir }: Directories): string => join(runDir, 'used');

export function watchIdle(
  sandbox: UsageSource & { readonly id: string },
  { directories, idle: { readCounters } }: Pick<ResourceContext, 'directories' | 'idle'>,
  { timeoutS }: IdleRule,
  onIdle: (signal: AbortSignal) => Promise<void>,
): IdleWatch {
  const { id, record } = sandbox;
  return new IdleWatch({
    idleMs: timeoutS * 1000,
    path: join(idleRoot(directories), id),
    read: () => readCounters(sandbox),
    hasConnection: async () => record.network !== undefined && hasOpenConnection(record.network.guestIp),
    onIdle,
  });
}

function createUse(id: string, directories: Directories, createdAtMs: number): SandboxUse {
  return new SandboxUse(join(usesRoot(directories), id), createdAtMs);
}

/** Removes stored idle states and uses of sandboxes that no longer exist. */
export async function forgetIdle(directories: Directories, known: ReadonlySet<string>): Promise<void> {
  for (const root of [idleRoot(directories), usesRoot(directories)]) {
    const names = await readdir(root).catch(() => []);
    await Promise.all(names.filter((name) => !known.has(name)).map((name) => rm(join(root, name))));
  }
}
