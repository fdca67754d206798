// Keys that commands change while the daemon runs, for its audit trail.
import type { Logger } from 'pino';
import type { AuditTrail } from '../audit/index.ts';
import type { KeyRegistry } from '../keys/index.ts';

const KEY_CHANGES_MS = 2000;

/** Commands change keys beside the daemon, which alone writes the audit trail. */
export function followKeys(keys: KeyRegistry, audit: AuditTrail | undefined, log: Logger): AsyncDisposable {
  const take = (): Promise<void> =>
    keys
      .takeChanges(({ atMs, keyId, ...change }) =>
        audit?.write({ event: 'keys', ...change, key_id: keyId, changed_at: new Date(atMs).toISOString() }),
      )
      .catch((err: unknown) => log.warn({ err }, 'cannot read what was done to keys'));
  const timer = setInterval(() => void take(), KEY_CHANGES_MS).unref();
  return {
    [Symbol.asyncDispose]: () => {
      clearInterval(timer);
      return take();
    },
  };
}
