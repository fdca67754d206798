// Metrics of host resources that the daemon uses besides memory and disk: user ids, networks, and the registry.
import { readdir, stat } from 'node:fs/promises';
import type { Metrics } from './metrics.ts';

export type HostOptions = {
  readonly registryPath: string;
  /** User ids of VMMs; absent: VMMs have none of their own. */
  readonly users?: { readonly leasesDir: string; readonly count: number } | undefined;
  readonly usedNetworks: () => number;
};

export function measureHost(metrics: Metrics, { registryPath, users, usedNetworks }: HostOptions): void {
  let registryBytes = 0;
  let usedUsers = 0;
  metrics.before(async () => {
    registryBytes = (await stat(registryPath).catch(() => undefined))?.size ?? registryBytes;
    if (users !== undefined) usedUsers = (await readdir(users.leasesDir).catch(() => [])).length;
  });
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.series('gauge', name, help, [], () => [{ value: read() }]);
  gauge('sandboxd_registry_bytes', 'Size of the registry file', () => registryBytes);
  gauge('sandboxd_networks_used', 'Networks that sandboxes have', usedNetworks);
  if (users === undefined) return;
  gauge('sandboxd_jail_users_used', 'Users of the host that VMMs have', () => usedUsers);
  gauge('sandboxd_jail_users', 'Users of the host that there are for VMMs', () => users.count);
}
