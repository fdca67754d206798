// Starting a VM, from its kernel or from saved state.
import { open } from 'node:fs/promises';
import type { BootOptions, ColdBootOptions, GuestMemory, RestoreOptions, Vm } from '../engine.ts';
import { startVmm } from '../start.ts';
import { FIRST_INHERITED_FD } from '../vmm-process.ts';
import { type Accelerator, buildQemuArgs, qemuCommandLine } from './args.ts';
import { bootingQemu, QEMU } from './control.ts';
import { QEMU_PROGRAM, qemuFiles } from './files.ts';

/** What was found to work on this host. */
export type QemuSetup = { readonly program: string; readonly accelerator: Accelerator };

export function bootQemu(options: ColdBootOptions, setup: QemuSetup): Promise<Vm> {
  const memory: GuestMemory =
    options.memoryPath === undefined ? { kind: 'anonymous' } : { kind: 'file', path: options.memoryPath };
  return startQemu(options, setup, memory);
}

export async function restoreQemu(options: RestoreOptions, setup: QemuSetup): Promise<Vm> {
  const { memoryPath, statePath } = options.saved;
  await using state = await open(statePath, 'r');
  return await startQemu(options, setup, { kind: 'copy-on-write', path: memoryPath }, state.fd);
}

function startQemu(
  options: BootOptions,
  { program, accelerator }: QemuSetup,
  memory: GuestMemory,
  stateFd?: number,
): Promise<Vm> {
  const { spec, paths } = options;
  const args = buildQemuArgs({
    spec,
    accelerator,
    memory,
    ...(stateFd !== undefined && { incomingFd: FIRST_INHERITED_FD }),
    ...qemuFiles(paths),
  });
  const inheritedFds = stateFd === undefined ? [] : [stateFd];
  const kind = stateFd === undefined ? bootingQemu(qemuCommandLine(spec, accelerator)) : QEMU;
  return startVmm(kind, options, { program, args, memory, argv0: QEMU_PROGRAM, inheritedFds });
}
