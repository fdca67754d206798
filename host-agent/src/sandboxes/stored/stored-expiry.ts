// Expiry of snapshots in the store. It writes no mark of a delete: hosts obey marks, and one of them may know a later
// time than another. Each host drops its own copy; an expired manifest is removed by any host, a day later.
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import type { LifecycleEvents } from '../lifecycle-events.ts';
import type { SnapshotRecord } from '../snapshot-record.ts';
import { type Description, describeAgain, readDescription } from './description.ts';
import type { SharedOptions } from './shared.ts';

/** A host with a later time may still wait for its upload. */
const GRACE_MS = 24 * 3_600_000;
const READ_TIMEOUT_MS = 5000;

type Expires = { readonly expiresAtMs?: number | undefined };

export type StoredExpiryDeps = Pick<SharedOptions, 'store' | 'records'> & {
  readonly events: Pick<LifecycleEvents, 'emit'>;
  readonly log: Logger;
  readonly forget: (id: string) => void;
};

export class StoredExpiry {
  readonly #deps: StoredExpiryDeps;
  readonly #sweeps = new Set<string>();

  constructor(deps: StoredExpiryDeps) {
    this.#deps = deps;
  }

  /**
   * For one of this host whose time has come: the record with the later time that another host gave it. Undefined: none
   * did, or the store does not answer. Never rejects.
   */
  async findLater(
    id: string,
    record: SnapshotRecord,
    stopping: AbortSignal,
  ): Promise<SnapshotRecord | undefined> {
    const { store, log } = this.#deps;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(READ_TIMEOUT_MS)]);
    try {
      const manifest = await store.read(id, signal);
      if (manifest === undefined || (await store.isDeleted(id, signal))) return undefined;
      const { expiresAtMs } = readDescription(manifest);
      if (isExpired({ expiresAtMs })) return undefined;
      const { expiresAtMs: _, ...rest } = record;
      return { ...rest, ...(expiresAtMs !== undefined && { expiresAtMs }) };
    } catch (error) {
      log.warn({ snapshot: id, reason: firstLine(error) }, 'cannot ask the store about an expired snapshot');
      return undefined;
    }
  }

  /** Gives the store the time of one that this host had, and had not uploaded since its last change. */
  async publish(id: string, expiresAtMs: number, signal: AbortSignal): Promise<void> {
    const { store } = this.#deps;
    const manifest = await store.read(id, signal);
    if (manifest === undefined || (await store.isDeleted(id, signal))) return;
    const description = readDescription(manifest);
    if ((description.expiresAtMs ?? Number.POSITIVE_INFINITY) <= expiresAtMs) return;
    await store.putManifest({ ...manifest, description: describeAgain(description, expiresAtMs) }, signal);
  }

  /** Removes one that has been expired for a day, unless it was given a later time. Never rejects. */
  async sweep(id: string, listed: Description, signal: AbortSignal): Promise<void> {
    const { store, events, log, forget } = this.#deps;
    if (!isExpired(listed, GRACE_MS) || this.#sweeps.has(id)) return;
    this.#sweeps.add(id);
    try {
      const manifest = await store.read(id, signal);
      if (manifest === undefined) return forget(id);
      const { owner, archive, expiresAtMs } = readDescription(manifest);
      if (!isExpired({ expiresAtMs }, GRACE_MS)) return;
      await store.removeManifest(id, signal);
      forget(id);
      const event = { kind: 'snapshot-deleted', snapshot: id, reason: 'expires_s' } as const;
      events.emit(event, owner, archive.options.about);
    } catch (error) {
      log.warn({ snapshot: id, reason: firstLine(error) }, 'cannot remove an expired snapshot of the store');
    } finally {
      this.#sweeps.delete(id);
    }
  }
}

export function isExpired({ expiresAtMs }: Expires, graceMs = 0): boolean {
  return expiresAtMs !== undefined && expiresAtMs + graceMs <= Date.now();
}
