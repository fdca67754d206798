// File names of one QEMU incarnation, and how its process is identified.
import { basename, join } from 'node:path';
import type { VmmFiles } from '../control.ts';
import type { VmPaths } from '../engine.ts';
import { BOARD } from './board.ts';

/** argv[0] of the process, whatever the program's file name. */
export const QEMU_PROGRAM = BOARD.program;

const CONTROL_SOCKET = 'qmp.sock';

export type QemuFiles = VmmFiles & {
  readonly agentSocketPath: string;
  /** Where the VMM writes its device state: it can create no files elsewhere. */
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

/** The argument of `-qmp`. */
export function controlArgument(socketPath: string): string {
  return `unix:${escapeComma(socketPath)},server=on,wait=off`;
}

/** The control socket from a process's arguments; undefined if it is not a VMM of this engine. */
export function controlSocketOf(args: readonly string[]): string | undefined {
  if (basename(args[0] ?? '') !== QEMU_PROGRAM) return undefined;
  const argument = args[args.indexOf('-qmp') + 1] ?? '';
  const path = /^unix:(\/.*),server=on,wait=off$/s.exec(argument)?.[1]?.replaceAll(',,', ',');
  const isOurs = path?.endsWith(`/${CONTROL_SOCKET}`) === true && controlArgument(path) === argument;
  return isOurs ? path : undefined;
}

/** A comma separates QEMU's options and is doubled within a value. */
export function escapeComma(value: string): string {
  return value.replaceAll(',', ',,');
}
