// Starts a VM, from its kernel or from saved state.
import { access, open, realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import { runProgram } from '../../lib/programs.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { poll } from '../../lib/wait.ts';
import type { BootOptions, ColdBootOptions, GuestMemory, RestoreOptions, Vm } from '../engine.ts';
import { findProgram, KVM_PATH } from '../host-facts.ts';
import type { Jail, View } from '../jail/jail.ts';
import { versionKey } from '../mapped-copy.ts';
import { isDirect, startVmm } from '../start.ts';
import type { Vmm } from '../vmm.ts';
import { FIRST_INHERITED_FD } from '../vmm-process.ts';
import { type Accelerator, buildQemuArgs, qemuCommandLine } from './args.ts';
import { bootingQemu, QEMU } from './control.ts';
import { QEMU_PROGRAM, qemuFiles } from './files.ts';
import { SEALED_MAPPING, type SealedMemories } from './sealed-memory.ts';

const LOAD_POLL_MS = 2;

/** What was found to work on this host. */
export type QemuSetup = {
  readonly program: string;
  readonly accelerator: Accelerator;
  readonly jail?: Jail | undefined;
  readonly memories: SealedMemories;
};

/** Descriptors that a VMM inherits to restore a saved guest. */
type Inherited = { readonly stateFd: number; readonly memoryFd: number };

export function bootQemu(options: ColdBootOptions, setup: QemuSetup): Promise<Vm> {
  const memory: GuestMemory =
    options.memoryPath === undefined ? { kind: 'anonymous' } : { kind: 'file', path: options.memoryPath };
  return startQemu(options, setup, memory);
}

export async function restoreQemu(options: RestoreOptions, setup: QemuSetup): Promise<Vm> {
  const { memoryPath, statePath } = options.saved;
  await using state = await open(statePath, 'r');
  if (options.ownsMemory) {
    // No other VM is harmed by what this one writes into it.
    await using file = await openRegular(memoryPath);
    const origin = { path: memoryPath, key: versionKey(await file.stat()) };
    const memory: GuestMemory = { kind: 'copy-on-write', path: await realpath(memoryPath), origin };
    return await startQemu(options, setup, memory, { stateFd: state.fd, memoryFd: file.fd });
  }
  const sealed = await setup.memories.hold(memoryPath);
  try {
    const inherited = { stateFd: state.fd, memoryFd: sealed.fd };
    const memory: GuestMemory = { kind: 'copy-on-write', path: SEALED_MAPPING, origin: sealed.origin };
    const vm = await startQemu(options, setup, memory, inherited);
    void vm.exited.then(() => sealed.release());
    return vm;
  } catch (error) {
    sealed.release();
    throw error;
  }
}

async function startQemu(
  options: BootOptions & Pick<RestoreOptions, 'beforeRun' | 'ownsMemory'>,
  { program: name, accelerator, jail }: QemuSetup,
  memory: GuestMemory,
  inherited?: Inherited,
): Promise<Vm> {
  const { spec, paths, beforeRun } = options;
  const program = findProgram(name);
  const files = qemuFiles(paths);
  // In its jail it cannot find its own directory.
  const firmware = jail === undefined ? [] : await listFirmware(program);
  const args = buildQemuArgs({
    spec,
    accelerator,
    isDirect: isDirect(options, jail),
    memory,
    ...(inherited !== undefined && { incomingFd: FIRST_INHERITED_FD, memoryFd: FIRST_INHERITED_FD + 1 }),
    waits: beforeRun !== undefined,
    ...files,
  });
  const ownsFile = memory.kind === 'file' || (memory.kind === 'copy-on-write' && options.ownsMemory === true);
  const inheritedFds = inherited === undefined ? [] : [inherited.stateFd, inherited.memoryFd];
  args.push(...firmware.flatMap((path) => ['-L', path]));
  const disks = (isReadOnly: boolean) =>
    spec.disks.filter((disk) => disk.isReadOnly === isReadOnly).map(({ path }) => path);
  const view: View = {
    reads: [
      ...firmware,
      ...(inherited === undefined ? [spec.kernelPath, spec.initramfsPath] : []),
      ...new Set(disks(true)),
    ],
    writes: [
      paths.socketDir,
      files.consolePath,
      files.statePath,
      ...disks(false),
      ...(ownsFile ? [memory.path] : []),
    ],
    devices: accelerator === 'kvm' ? [KVM_PATH] : [],
  };
  const run = beforeRun && ((vm: Vmm) => runLoaded(vm, beforeRun, options.signal));
  const launch = {
    program,
    argv0: QEMU_PROGRAM,
    args,
    memory,
    inheritedFds,
    jail,
    view,
    ...(run && { run, isFinal: true }),
  };
  const kind = inherited === undefined ? bootingQemu(qemuCommandLine(spec, accelerator)) : QEMU;
  return await startVmm(kind, options, launch);
}

/** The saved state is loaded by the VMM's main loop, usually before its first answer. */
async function runLoaded(vm: Vmm, beforeRun: () => Promise<void>, signal?: AbortSignal): Promise<void> {
  const either = signal === undefined ? vm.ended : AbortSignal.any([signal, vm.ended]);
  await poll(
    async () => ((await vm.checkState()).kind === 'paused' ? true : undefined),
    LOAD_POLL_MS,
    either,
  );
  await beforeRun();
  await vm.control.resume();
}

const firmwareOf = new Map<string, Promise<readonly string[]>>();

/** Directories of the firmware that the program loads into guests, as the program lists them: its jail shows them. */
export function listFirmware(program: string): Promise<readonly string[]> {
  let directories = firmwareOf.get(program);
  if (directories === undefined) {
    directories = queryFirmware(program);
    firmwareOf.set(program, directories);
  }
  return directories;
}

async function queryFirmware(program: string): Promise<readonly string[]> {
  const { stdout } = await runProgram(program, ['-L', 'help']);
  const named = stdout.split('\n').filter((line) => line.startsWith('/'));
  const found = named.map(async (line) => {
    const path = resolve(line);
    return (await access(path).then(
      () => true,
      () => false,
    ))
      ? [path]
      : [];
  });
  return (await Promise.all(found)).flat();
}
