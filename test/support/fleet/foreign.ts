// Pods that no gateway made, at a host whose sandboxes are in memory.
import { toLocal } from '../../../host-agent/src/app/open-fleet.ts';
import { toPodSandboxes } from '../../../host-agent/src/app/open-pods.ts';
import { ForeignPods } from '../../../host-agent/src/fleet/index.ts';
import type { KeyRegistry } from '../../../host-agent/src/keys/index.ts';
import { parseIpv4Range } from '../../../host-agent/src/lib/ipv4.ts';
import type { MemoryDaemon } from '../memory-host/daemon.ts';
import { LIMITS } from './fleet.ts';

export type HostPodsOptions = {
  /** Its name. */
  readonly key: string;
  readonly keys: KeyRegistry;
  readonly range?: string;
};

export function openForeignPods(
  { key, keys, range }: HostPodsOptions,
  { manager: sandboxes, events }: MemoryDaemon,
  options: Omit<ConstructorParameters<typeof ForeignPods>[0], 'sandboxes' | 'range' | 'hostIp' | 'pollMs'>,
): ForeignPods {
  const local = toLocal({ sandboxes, events });
  return new ForeignPods({
    ...options,
    sandboxes: toPodSandboxes(key, { sandboxes, keys, limits: LIMITS, hasImages: false }, local),
    range: range === undefined ? undefined : parseIpv4Range(range),
    hostIp: '127.0.0.1',
    pollMs: 100,
  });
}
