// File names of one VMM incarnation, and its command line.
import { basename, join } from 'node:path';
import type { VmmFiles } from '../control.ts';
import type { VmPaths } from '../engine.ts';

/** argv[0] of the process, whatever the program's file name: a later daemon identifies the VMM by it. */
export const VMM_NAME = 'cloud-hypervisor';

const API_SOCKET = 'api.sock';

export type CloudHypervisorFiles = VmmFiles & {
  readonly dir: string;
  readonly socketDir: string;
  readonly vsockPath: string;
  readonly eventsPath: string;
  /**
   * What the VMM needs only during its start. It is removed afterwards: on a guest reset this VMM would boot the guest
   * again in the same process, but a reset must end the VM.
   */
  readonly startDir: string;
  readonly startKernelPath: string;
  /** Where the VMM opens the console file. */
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

/** The VM itself is configured over the API, which cannot be combined with options here. */
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

/** The control socket from a process's arguments; undefined if it is not a VMM of this engine. */
export function apiSocketOf(args: readonly string[]): string | undefined {
  if (basename(args[0] ?? '') !== VMM_NAME) return undefined;
  const option = args[args.indexOf(API_OPTION) + 1] ?? '';
  const path = /^path=(\/.*|"\/.*")$/.exec(option)?.[1];
  if (path === undefined) return undefined;
  const plain = path.startsWith('"') ? path.slice(1, -1).replaceAll('""', '"') : path;
  return plain.endsWith(`/${API_SOCKET}`) ? plain : undefined;
}

/** Quotes the value of an option in a comma-separated list. */
function quote(value: string): string {
  return /[,"[\]]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
