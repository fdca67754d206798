// Finding the VMMs of earlier daemons, and taking one over.
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { toError } from '../../lib/errors.ts';
import { listPids, readArguments, readBootId, readStartTicks } from '../../lib/proc.ts';
import type { AdoptOptions, FoundVmm, Vm, VmmIdentity } from '../engine.ts';
import { watchVmm } from '../vmm-process.ts';
import { qmpArgument } from './args.ts';
import { connectControl, QEMU_PROGRAM } from './boot.ts';
import { qemuFiles } from './files.ts';
import { QemuVm } from './vm.ts';

const RETRY_CONTROL_MS = 5000;
/** States of a guest that somebody stopped: a daemon that saved it and did not come back. */
const PAUSED = ['paused', 'save-vm', 'prelaunch'];

/** Only a process that has the control socket's path as its own argument is that VMM. */
export function adoptQemu(identity: VmmIdentity, options: AdoptOptions): Vm | null {
  if (identity.bootId !== readBootId()) return null;
  const files = qemuFiles(identity.paths);
  if (!isQemu(readArguments(identity.pid), qmpArgument(files.qmpSocketPath))) return null;
  const process = watchVmm(identity.pid, identity.startTicks);
  if (process === null) return null;
  const { log, onResumed } = options;
  const vm = new QemuVm({ identity, process, files, log, onResumed, hasHistory: true });
  void takeControl(vm, files.qmpSocketPath, options);
  return vm;
}

/** Tries until it has the control connection or the VMM is gone; the guest's agent can be used meanwhile. */
async function takeControl(vm: QemuVm, socketPath: string, options: AdoptOptions): Promise<void> {
  for (let hasWarned = false; vm.exit === undefined && !vm.isDetached; hasWarned = true) {
    try {
      const status = await connectControl(vm, socketPath);
      if (PAUSED.includes(status)) {
        await vm.resume();
        options.log.info('resumed a guest that was left paused');
        options.onResumed?.();
      }
      return;
    } catch (error) {
      if (!hasWarned && vm.exit === undefined)
        options.log.warn({ err: toError(error) }, 'the VMM does not answer on its control socket yet');
      await sleep(RETRY_CONTROL_MS, undefined, { ref: false });
    }
  }
}

export function findQemus(runDir: string): FoundVmm[] {
  return listPids().flatMap((pid) => {
    const args = readArguments(pid);
    const path = /^unix:(\/.*\/qmp\.sock),/
      .exec(args[args.indexOf('-qmp') + 1] ?? '')?.[1]
      ?.replaceAll(',,', ',');
    if (path === undefined || !path.startsWith(`${runDir}/`)) return [];
    const startTicks = readStartTicks(pid);
    if (startTicks === undefined || !isQemu(args, qmpArgument(path))) return [];
    return [{ pid, startTicks, socketDir: dirname(path) }];
  });
}

function isQemu(args: readonly string[], control: string): boolean {
  return basename(args[0] ?? '') === QEMU_PROGRAM && args[args.indexOf('-qmp') + 1] === control;
}
