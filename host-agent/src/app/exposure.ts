// Which settings let other machines reach the daemon, and so need keys.
import { type Config, isLoopback, type ListenAddress } from '../config/index.ts';

/** The listen address that other machines can reach. */
export function findExposed({ listen: main, metrics, ingress, e2b }: Config): ListenAddress | undefined {
  return [main, metrics.listen, ingress?.listen, e2b?.listen].find(
    (at) => at && !('path' in at) && !isLoopback(at.host),
  );
}

/** Also before the first key: those of a fleet come after the start. */
export function needsKeys(config: Config): boolean {
  return config.requiresKeys || (config.fleet !== undefined && findExposed(config) !== undefined);
}
