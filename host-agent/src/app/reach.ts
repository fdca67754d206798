// Who reaches the daemon, and how many at once.
import type { Logger } from 'pino';
import { type Config, formatListen, isLoopback } from '../config/index.ts';
import type { KeyRegistry } from '../keys/index.ts';
import { readDescriptorLimit, shareDescriptors } from '../lib/descriptors.ts';
import { AppError } from '../lib/errors.ts';

/** AppError conflict for an address that others reach when nobody needs a key to use it. */
export function assertNotExposed({ listen: main, metrics }: Config, keys: KeyRegistry): void {
  const listen = [main, metrics.listen].find((at) => at && !('path' in at) && !isLoopback(at.host));
  if (listen === undefined || keys.hasValidKey) return;
  throw new AppError(
    'conflict',
    `${formatListen(listen)} can be reached from other machines, and there is no valid key; make one (\`sandboxd keys create <name>\`), or listen on 127.0.0.1, [::1] or unix:/path`,
  );
}

/** Each start without keys says what that means: that all are let in, or nobody. */
export function warnOfNoKeys({ listen }: Pick<Config, 'listen'>, keys: KeyRegistry, log: Logger): void {
  if (keys.hasKeys) return;
  const makeOne = '`sandboxd keys create <name>` makes one, without a restart';
  const mark = keys.lostMark;
  if (mark !== undefined) {
    log.error(
      `there were keys, and the registry has none: it was lost, or is another; nobody is let in until there is a key; ${makeOne}, or a backup of the registry has the old ones; remove ${mark} if everybody is to be let in`,
    );
  } else if (keys.isClosed) {
    log.warn(`there are no keys, and require_keys is set: nobody is let in; ${makeOne}`);
  } else {
    const who = 'path' in listen ? 'who may write to' : 'who reaches';
    log.warn(`there are no keys: ${who} ${formatListen(listen)} may do everything; ${makeOne}`);
  }
}

/** The limits that are left where this process may not have descriptors for all that was asked for. */
export function splitDescriptors(
  { limits, maxConnections }: Config,
  log: Logger,
): Pick<Config, 'limits' | 'maxConnections'> {
  const descriptors = readDescriptorLimit();
  const wanted = { connections: maxConnections, sandboxes: limits.sandboxes };
  const { connections, sandboxes } = shareDescriptors(descriptors, wanted);
  if (connections < maxConnections || sandboxes < limits.sandboxes) {
    log.warn(
      `this process may have ${descriptors} descriptors: at most ${connections} clients may be connected, and ${sandboxes} sandboxes exist; raise its limit (LimitNOFILE of systemd, ulimit -n) for more`,
    );
  }
  return { limits: { ...limits, sandboxes }, maxConnections: connections };
}
