// Who reaches the daemon, and how many at once.
import type { Logger } from 'pino';
import { type Config, formatListen, isLoopback } from '../config/index.ts';
import type { KeyRegistry } from '../keys/index.ts';
import { readDescriptorLimit, shareDescriptors } from '../lib/descriptors.ts';
import { AppError } from '../lib/errors.ts';

/** AppError conflict for an address that others reach when nobody needs a key to use it. */
export function assertClosed({ listen: main, metrics }: Config, keys: KeyRegistry): void {
  const listen = [main, metrics.listen].find((at) => at && !('path' in at) && !isLoopback(at.host));
  if (listen === undefined || keys.hasValidKey) return;
  throw new AppError(
    'conflict',
    `${formatListen(listen)} can be reached from other machines, and there is no valid key; make one (\`sandboxd keys create <name>\`), or listen on 127.0.0.1, [::1] or unix:/path`,
  );
}

/** The limits that are left where this process may not have descriptors for all that was asked for. */
export function shareOut(
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
