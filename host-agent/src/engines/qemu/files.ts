// Names of the files that one QEMU incarnation has in its directories, and how its process is known.
import { basename, join } from 'node:path';
import type { VmmFiles } from '../control.ts';
import type { VmPaths } from '../engine.ts';

/** What the process is called, whichever file the program is. */
export const QEMU_PROGRAM = 'qemu-system-x86_64';

const CONTROL_SOCKET = 'qmp.sock';

export type QemuFiles = VmmFiles & {
  readonly agentSocketPath: string;
  /** Where the VMM writes its device state: it can make no file elsewhere. */
  readonly statePath: string;
};

export function qemuFiles({ dir, socketDir }: VmPaths): QemuFiles {
  const controlSocketPath = join(socketDir, CONTROL_SOCKET);
  const agentSocketPath = join(socketDir, 'agent.sock');
  return {
    controlSocketPath,
    agentSocketPath,
    consolePath: join(dir, 'console.log'),
    logPath: join(dir, 'vmm.log'),
    statePath: join(dir, 'device-state'),
    socketPaths: [controlSocketPath, agentSocketPath],
  };
}

/** What follows `-qmp`. */
export function controlArgument(socketPath: string): string {
  return `unix:${escapeComma(socketPath)},server=on,wait=off`;
}

/** The control socket that a process was started with; undefined when it is none of our VMMs. */
export function controlSocketOf(args: readonly string[]): string | undefined {
  if (basename(args[0] ?? '') !== QEMU_PROGRAM) return undefined;
  const argument = args[args.indexOf('-qmp') + 1] ?? '';
  const path = /^unix:(\/.*),server=on,wait=off$/s.exec(argument)?.[1]?.replaceAll(',,', ',');
  const isOurs = path?.endsWith(`/${CONTROL_SOCKET}`) === true && controlArgument(path) === argument;
  return isOurs ? path : undefined;
}

/** Commas separate QEMU's options and are doubled in values. */
export function escapeComma(value: string): string {
  return value.replaceAll(',', ',,');
}
