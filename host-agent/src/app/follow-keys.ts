// Copies key changes of commands to the audit trail.
import type { Logger } from 'pino';
import type { AuditTrail } from '../audit/index.ts';
import type { KeyRegistry } from '../keys/index.ts';

const POLL_INTERVAL_MS = 2000;

/** Commands change keys in the store; only the daemon writes the audit trail. */
export function followKeys(keys: KeyRegistry, audit: AuditTrail | undefined, log: Logger): AsyncDisposable {
  const poll = (): Promise<void> =>
    keys
      .takeChanges(({ atMs, keyId, ...change }) =>
        audit?.write({ event: 'keys', ...change, key_id: keyId, changed_at: new Date(atMs).toISOString() }),
      )
      .catch((err: unknown) => log.warn({ err }, 'cannot read the key changes for the audit trail'));
  const timer = setInterval(() => void poll(), POLL_INTERVAL_MS).unref();
  return {
    [Symbol.asyncDispose]: () => {
      clearInterval(timer);
      return poll();
    },
  };
}
