// The remaining boot steps: loopback, host name, limits, the agent's OOM exemption, kernel settings.
import { readGuestSize } from '../exec/cgroups.ts';
import { toSystemVLimits } from '../exec/limits.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { attempt } from './attempt.ts';

/** Maximum descriptors of the agent; each running command uses four. */
const MAX_OPEN_FILES = 1_048_576;

const SETTINGS: readonly (readonly [path: string, value: string])[] = [
  // Child processes drop the exemption (native/spawn.cc).
  ['/proc/self/oom_score_adj', '-1000'],
  // As in container runtimes: unprivileged ping and ports below 1024.
  ['/proc/sys/net/ipv4/ping_group_range', '0 2147483647'],
  ['/proc/sys/net/ipv4/ip_unprivileged_port_start', '0'],
  // Defaults of current desktops and servers, which databases, browsers and file watchers check for. Memory is used
  // only by the process that allocates it, and counts for that process's cgroup.
  ['/proc/sys/vm/max_map_count', '1048576'],
  ['/proc/sys/fs/inotify/max_user_watches', '524288'],
  ['/proc/sys/fs/inotify/max_user_instances', '1024'],
  // An idle guest shall sleep: the kernel would look twice a second whether it should move pages together, and once a
  // second add up its counters.
  ['/proc/sys/vm/compaction_proactiveness', '0'],
  ['/proc/sys/vm/stat_interval', '10'],
  // Nor does it need to look for a CPU that hangs (each 4 s), or for neighbours that are never configured (each 5 s).
  ['/proc/sys/kernel/watchdog', '0'],
  ['/proc/sys/net/ipv4/neigh/default/interval_probe_time_ms', '60000'],
  ['/proc/sys/net/ipv6/neigh/default/interval_probe_time_ms', '60000'],
  // Changed pages are written once they are this old, or many. The disk does not outlive a crash of its VM, and pauses
  // and snapshots write out the rest.
  ['/proc/sys/vm/dirty_writeback_centisecs', '3000'],
];

export function setUpSystem(): void {
  // Otherwise the agent would preempt a command that fills its pipe page by page, once for each page.
  attempt('scheduling', () => addon.runInBatches());
  attempt('code', () => addon.holdCode());
  attempt('limit of open files', () => addon.limitFiles(MAX_OPEN_FILES));
  attempt('loopback', () => addon.bringUp('lo'));
  attempt('host name', () => addon.setHostname('sandbox'));
  // A kernel may lack some of these settings.
  for (const [path, value] of SETTINGS) addon.writeText(NO_DIRECTORY, path, value);
  attempt('System V limits', limitSystemV);
}

function limitSystemV(): void {
  for (const [name, value] of Object.entries(toSystemVLimits(readGuestSize())))
    addon.writeText(NO_DIRECTORY, `/proc/sys/kernel/${name}`, String(value));
}
