// Deletes snapshots when they expire: one timer for the earliest of them.
import { startTimer } from '@sandboxd/proto';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { SnapshotRecord } from './snapshot-record.ts';

/** A failed delete is tried again after this time: a failing disk may recover. */
const RETRY_MS = 10_000;
const MAX_DELETES = 64;

export type Expiring = { readonly id: string; readonly expiresAtMs: number };

export function toExpiring(
  entries: ReadonlyMap<string, { readonly record: SnapshotRecord }>,
): readonly Expiring[] {
  return [...entries].flatMap(([id, { record }]) =>
    record.expiresAtMs === undefined ? [] : [{ id, expiresAtMs: record.expiresAtMs }],
  );
}

/** Of the automatic ones that an automatic one came from, those that its keep_last does not include. */
export function findReplaced(
  id: string,
  ancestors: readonly string[],
  entries: ReadonlyMap<string, { readonly record: SnapshotRecord }>,
): readonly string[] {
  const { automatic, owner } = entries.get(id)?.record ?? {};
  if (automatic?.keepLast === undefined) return [];
  const older = ancestors.filter((each) => {
    const record = entries.get(each)?.record;
    return record?.automatic !== undefined && record.owner?.tenant === owner?.tenant;
  });
  return older.slice(automatic.keepLast - 1);
}

type ExpiryOptions = {
  readonly all: () => readonly Expiring[];
  readonly remove: (id: string) => Promise<void>;
  readonly log: Logger;
};

export class SnapshotExpiry {
  readonly #options: ExpiryOptions;
  #cancel: () => void = () => undefined;
  #isStopped = false;

  constructor(options: ExpiryOptions) {
    this.#options = options;
  }

  /** Call after each change of what expires. */
  schedule(notBeforeMs = 0): void {
    this.#cancel();
    if (this.#isStopped) return;
    const times = this.#options.all().map(({ expiresAtMs }) => expiresAtMs);
    if (times.length === 0) return;
    const atMs = times.reduce((a, b) => Math.min(a, b));
    const delayMs = Math.max(atMs, notBeforeMs) - Date.now();
    this.#cancel = startTimer(delayMs, () => void this.#expire(), { isUnref: true });
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  async #expire(): Promise<void> {
    const { all, remove, log } = this.#options;
    const findExpired = () => all().filter(({ expiresAtMs }) => expiresAtMs <= Date.now());
    // A delete waits for those who use the snapshot, so the others do not wait for it.
    const deletes = new PQueue({ concurrency: MAX_DELETES });
    for (const { id } of findExpired())
      void deletes.add(async () => {
        // A client may have changed it meanwhile.
        if (this.#isStopped || !findExpired().some((each) => each.id === id)) return;
        await remove(id).catch((err) => {
          log.warn({ err, snapshot: id }, 'cannot delete an expired snapshot; retrying');
        });
      });
    await deletes.onIdle();
    const hasFailed = findExpired().length > 0;
    this.schedule(hasFailed ? Date.now() + RETRY_MS : 0);
  }
}
