// Names of the files that one QEMU incarnation has in its directories.
import { join } from 'node:path';
import type { VmPaths } from '../engine.ts';

export type QemuFiles = {
  readonly qmpSocketPath: string;
  readonly agentSocketPath: string;
  readonly consolePath: string;
  readonly logPath: string;
};

export function qemuFiles(paths: VmPaths): QemuFiles {
  return {
    qmpSocketPath: join(paths.socketDir, 'qmp.sock'),
    agentSocketPath: join(paths.socketDir, 'agent.sock'),
    consolePath: join(paths.dir, 'console.log'),
    logPath: join(paths.dir, 'vmm.log'),
  };
}
