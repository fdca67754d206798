// Names of the files that one incarnation of a VMM has in its directories, and its command line.
import { basename, join } from 'node:path';
import type { VmmFiles } from '../control.ts';
import type { VmPaths } from '../engine.ts';

/** What the process is called, whichever file the program is: by this a later daemon knows it. */
export const VMM_NAME = 'cloud-hypervisor';

const API_SOCKET = 'api.sock';

export type CloudHypervisorFiles = VmmFiles & {
  readonly dir: string;
  readonly socketDir: string;
  readonly vsockPath: string;
  readonly eventsPath: string;
  /**
   * What the VMM needs only while it starts. Without it nothing can start again in the same process: the VMM obeys a
   * guest's reset by booting it anew, which must be the VM's end instead.
   */
  readonly startDir: string;
  readonly startKernelPath: string;
  /** Where the VMM opens the console. */
  readonly earlyConsolePath: string;
};

export function vmmFiles({ dir, socketDir }: VmPaths): CloudHypervisorFiles {
  const startDir = join(dir, 'start');
  const controlSocketPath = join(socketDir, API_SOCKET);
  const vsockPath = join(socketDir, 'vsock.sock');
  const eventsPath = join(dir, 'events.json');
  return {
    dir,
    socketDir,
    controlSocketPath,
    vsockPath,
    eventsPath,
    consolePath: join(dir, 'console.log'),
    logPath: join(dir, 'vmm.log'),
    startDir,
    startKernelPath: join(startDir, 'kernel'),
    earlyConsolePath: join(startDir, 'console'),
    growingPaths: [eventsPath],
    socketPaths: [controlSocketPath, `${controlSocketPath}.lock`, vsockPath],
  };
}

const API_OPTION = '--api-socket';

/** The VM comes over the API: options for it here could not be joined with that. */
export function vmmArguments({ controlSocketPath, eventsPath }: CloudHypervisorFiles): string[] {
  return [
    API_OPTION,
    `path=${quote(controlSocketPath)}`,
    '--event-monitor',
    `path=${quote(eventsPath)}`,
    '--seccomp',
    'true',
  ];
}

/** The control socket that a process was started with; undefined when it is none of our VMMs. */
export function apiSocketOf(args: readonly string[]): string | undefined {
  if (basename(args[0] ?? '') !== VMM_NAME) return undefined;
  const option = args[args.indexOf(API_OPTION) + 1] ?? '';
  const path = /^path=(\/.*|"\/.*")$/.exec(option)?.[1];
  if (path === undefined) return undefined;
  const plain = path.startsWith('"') ? path.slice(1, -1).replaceAll('""', '"') : path;
  return plain.endsWith(`/${API_SOCKET}`) ? plain : undefined;
}

/** The value of an option in a comma-separated list of them. */
function quote(value: string): string {
  return /[,"[\]]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
