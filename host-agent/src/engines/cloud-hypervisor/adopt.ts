// Finding the VMMs of earlier daemons, and taking one over.
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { toError } from '../../lib/errors.ts';
import { listPids, readArguments, readBootId, readStartTicks } from '../../lib/proc.ts';
import type { AdoptOptions, FoundVmm, Vm, VmmIdentity } from '../engine.ts';
import { watchVmm } from '../vmm-process.ts';
import { VmmApi } from './api.ts';
import { isNoVm } from './api-error.ts';
import { apiSocketOf, vmmFiles } from './files.ts';
import { removeStaging } from './save.ts';
import { CloudHypervisorVm } from './vm.ts';

/** A VMM that still writes what an earlier daemon asked for answers when that is done. */
const ANSWER_TIMEOUT_MS = 600_000;
const RESUME_TIMEOUT_MS = 60_000;
const RETRY_MS = 5000;

/** Only a process that has the control socket's path as its own argument is that VMM. */
export function adoptVm(identity: VmmIdentity, options: AdoptOptions): Vm | null {
  if (identity.bootId !== readBootId()) return null;
  const files = vmmFiles(identity.paths);
  if (apiSocketOf(readArguments(identity.pid)) !== files.apiSocketPath) return null;
  const process = watchVmm(identity.pid, identity.startTicks);
  if (process === null) return null;
  const api = new VmmApi(files.apiSocketPath);
  const vm = new CloudHypervisorVm({ identity, process, files, api, log: options.log });
  void takeControl(vm, api, files.dir, options);
  return vm;
}

/** Tries until the VMM has answered or is gone; the guest's agent can be used meanwhile. */
async function takeControl(
  vm: CloudHypervisorVm,
  api: VmmApi,
  dir: string,
  { log, onResumed }: AdoptOptions,
): Promise<void> {
  void vm.watchEvents();
  for (let hasWarned = false; vm.exit === undefined && !vm.isDetached; hasWarned = true) {
    try {
      const { state } = await api.info({ timeoutMs: ANSWER_TIMEOUT_MS, signal: vm.ended });
      if (vm.isDetached) return;
      if (state === 'Shutdown' || state === 'Created') {
        await vm.giveUp('the guest powered off');
        return;
      }
      // A daemon that saved it did not come back.
      if (state === 'Paused') {
        await api.put('vm.resume', undefined, { timeoutMs: RESUME_TIMEOUT_MS, signal: vm.ended });
        log.info('resumed a guest that was left paused');
        onResumed?.();
      }
      await removeStaging(dir);
      return;
    } catch (error) {
      if (isNoVm(error)) {
        await vm.giveUp('the VMM has no VM any more');
        return;
      }
      if (!hasWarned && vm.exit === undefined)
        log.warn({ err: toError(error) }, 'the VMM does not answer on its control socket yet');
      await sleep(RETRY_MS, undefined, { ref: false });
    }
  }
}

export function findVmmProcesses(runDir: string): FoundVmm[] {
  return listPids().flatMap((pid) => {
    const socketPath = apiSocketOf(readArguments(pid));
    if (socketPath === undefined || !socketPath.startsWith(`${runDir}/`)) return [];
    const startTicks = readStartTicks(pid);
    return startTicks === undefined ? [] : [{ pid, startTicks, socketDir: dirname(socketPath) }];
  });
}
