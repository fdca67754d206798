// Checks at start: exposure without keys, and the descriptor limit.
import type { Logger } from 'pino';
import { type Config, formatListen, isLoopback } from '../config/index.ts';
import type { KeyRegistry } from '../keys/index.ts';
import { readDescriptorLimit, shareDescriptors } from '../lib/descriptors.ts';
import { AppError } from '../lib/errors.ts';

/** AppError conflict for a listen address that other machines can reach while no key is required. */
export function assertNotExposed({ listen: main, metrics }: Config, keys: KeyRegistry): void {
  const listen = [main, metrics.listen].find((at) => at && !('path' in at) && !isLoopback(at.host));
  if (listen === undefined || keys.hasValidKey) return;
  throw new AppError(
    'conflict',
    `${formatListen(listen)} can be reached from other machines, and there is no valid key; make one (\`sandboxd keys create <name>\`), or listen on 127.0.0.1, [::1] or unix:/path`,
  );
}

/** Logs at each start without keys whether all clients or none are accepted. */
export function warnOfNoKeys({ listen }: Pick<Config, 'listen'>, keys: KeyRegistry, log: Logger): void {
  if (keys.hasKeys) return;
  const makeOne = '`sandboxd keys create <name>` makes one, without a restart';
  const mark = keys.lostMark;
  if (mark !== undefined) {
    log.error(
      `keys existed before, but the registry has none: it was lost or replaced; no client is accepted until there is a key; ${makeOne}, or restore the registry from a backup; remove ${mark} to accept every client`,
    );
  } else if (keys.isClosed) {
    log.warn(`there are no keys, and require_keys is set: no client is accepted; ${makeOne}`);
  } else {
    const clients = 'path' in listen ? 'every user who can write to' : 'every client that can reach';
    log.warn(`there are no keys: ${clients} ${formatListen(listen)} has full access; ${makeOne}`);
  }
}

/** Reduces the limits of connections and sandboxes when the process may not open enough descriptors. */
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
