// The rest of bringing a system up: loopback, host name, limits, the agent's exemption from the OOM killer, settings.
import { readGuestSize } from '../exec/cgroups.ts';
import { toSystemVLimits } from '../exec/limits.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { attempt } from './attempt.ts';

/** Descriptors the agent itself may hold: four for each running command. */
const MAX_OPEN_FILES = 1_048_576;

const SETTINGS: readonly (readonly [path: string, value: string])[] = [
  // What is started leaves the exemption again (native/spawn.cc).
  ['/proc/self/oom_score_adj', '-1000'],
  // As container runtimes do: ping and ports below 1024 without privileges.
  ['/proc/sys/net/ipv4/ping_group_range', '0 2147483647'],
  ['/proc/sys/net/ipv4/ip_unprivileged_port_start', '0'],
  // What desktops and servers of today have, and what databases, browsers and watchers of source trees check for. The memory that
  // they stand for is only taken by who uses it, and counts for its group.
  ['/proc/sys/vm/max_map_count', '1048576'],
  ['/proc/sys/fs/inotify/max_user_watches', '524288'],
  ['/proc/sys/fs/inotify/max_user_instances', '1024'],
];

export function setUpSystem(): void {
  // A command that fills its pipe page by page would otherwise be interrupted for each of them.
  attempt('scheduling', () => addon.runInBatches());
  attempt('code', () => addon.holdCode());
  attempt('limit of open files', () => addon.limitFiles(MAX_OPEN_FILES));
  attempt('loopback', () => addon.bringUp('lo'));
  attempt('host name', () => addon.setHostname('sandbox'));
  // Not every kernel has every setting.
  for (const [path, value] of SETTINGS) addon.writeText(NO_DIRECTORY, path, value);
  attempt('System V limits', limitSystemV);
}

function limitSystemV(): void {
  for (const [name, value] of Object.entries(toSystemVLimits(readGuestSize())))
    addon.writeText(NO_DIRECTORY, `/proc/sys/kernel/${name}`, String(value));
}
