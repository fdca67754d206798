// The VMM process of a sandbox.
import { EndedVm } from '../../engines/adoption.ts';
import type { BootOptions, Engine, Vm, VmExit, VmmIdentity } from '../../engines/engine.ts';
import { lowerPriority } from '../../engines/vmm-priority.ts';
import { AppError } from '../../lib/errors.ts';
import { loadScaledTimeout } from '../../lib/load-scaled-timeout.ts';
import { readBootId } from '../../lib/proc.ts';
import { deadline, raceSignal } from '../../lib/wait.ts';
import type { ResolvedSandboxOptions } from '../types.ts';
import type { Resource, ResourceContext, StartContext, StartFrom } from './resource.ts';

/** Kernel argument for the initramfs: the root file system has no agent, which is on a third disk. */
const AGENT_DISK = 'sandbox.agent-disk';
/** Kernel argument for the initramfs: generic template; a copy gets its root file system later. */
const GENERIC = 'sandbox.bare';
/** A killed VMM must exit within this time. */
const END_TIMEOUT_MS = 5000;

export const vmm: Resource = {
  stage: ({ kind }) => (kind === 'boot' ? 'boot' : 'restore'),

  async acquire(start) {
    const { context, engine, origin, handles } = start;
    const { bootTimeoutMs: timeoutMs } = context.settings;
    const tooLate = () =>
      new AppError('internal', `the VM did not start within ${timeoutMs} ms`, { isTimeout: true });
    using limit = deadline(timeoutMs, tooLate, start.signal);
    const options = { ...vmOptions(start), signal: limit.signal };
    handles.vm = await startVm(engine, origin, options);
    void handles.vm.exited.then(({ reason }) => start.abortStart(new AppError('internal', reason)));
    context.faults.reach('start.vm');
  },

  async adopt({ id, context, record, handles, log }) {
    if (record.vmm === null) return;
    const engine = engineOf(context, record.vmm);
    // The clock is also set on each new connection to the agent.
    const onResumed = (): void => handles.guest?.stepClock();
    handles.vm =
      engine?.adopt(record.vmm, { log, onResumed }) ?? (await findExited(engine, record.vmm, record.exit));
    if (handles.vm?.exit === undefined || record.exit !== undefined) return;
    const diagnosis = await handles.vm.diagnose();
    const { exit } = handles.vm;
    const died = context.events.prepare(
      { kind: 'died', sandbox: id, exit, diagnosis },
      record.owner,
      record.metadata,
    );
    // If this fails, the next start finds the cause again.
    await context.records
      .put(id, { ...record, exit }, died.persist)
      .catch((err) => log.error({ err }, 'cannot record the exit of a VM'));
    died.publish();
  },

  async release({ handles }) {
    // Killed at once, because its disk and memory are removed too. `sweep` waits for its exit.
    handles.vm?.kill().catch(() => undefined);
  },

  async sweep({ context, record, handles, log }) {
    const vm =
      handles.vm ?? (record?.vmm ? engineOf(context, record.vmm)?.adopt(record.vmm, { log }) : undefined);
    if (vm) await stop(vm);
    context.faults.reach('delete.killed');
  },
};

function startVm(engine: Engine, origin: StartFrom, options: BootOptions): Promise<Vm> {
  if (origin.kind === 'saved') return engine.restore({ ...options, saved: origin.saved.vm });
  if (origin.kind === 'paused') {
    const { saved, beforeRun } = origin;
    return engine.restore({ ...options, saved, ownsMemory: true, beforeRun });
  }
  const { memoryPath } = origin;
  return engine.boot({ ...options, ...(memoryPath !== undefined && { memoryPath }) });
}

/** Rejects when it does not exit in time, as a VMM may that waits for a disk; nothing else waits for it. */
export async function stop(vm: Vm): Promise<void> {
  using limit = loadScaledTimeout({
    timeoutMs: END_TIMEOUT_MS,
    reason: (waitedMs) =>
      new AppError('internal', `its VMM, process ${vm.identity.pid}, has not ended for ${waitedMs} ms`),
  });
  await raceSignal(vm.kill(), limit.signal);
}

function vmOptions(start: StartContext) {
  const { context, record, paths, handles, log, isBackground, update, abortStart } = start;
  const { options } = record;
  const { network: net } = handles;
  const { agentPath } = options.rootfs;
  return {
    spec: {
      vcpus: options.vcpus,
      memoryMib: options.memoryMib,
      kernelPath: context.system.kernel.vmlinuxPath,
      initramfsPath: context.system.kernel.initramfsPath,
      bootArgs: toBootArgs(options),
      disks: [
        { path: options.rootfs.rootfsPath, isReadOnly: true },
        { path: paths.layerPath, isReadOnly: false },
        ...(agentPath === undefined ? [] : [{ path: agentPath, isReadOnly: true }]),
      ],
      ...(net !== undefined && { net }),
    },
    paths,
    diskBytes: options.diskBytes,
    log,
    onResumed: () => handles.guest?.stepClock(),
    onIoPause: (cause: string) => abortStart(new AppError('exhausted', cause, { retryAfterS: 5 })),
    onSpawn: async (identity: VmmIdentity) => {
      context.faults.reach('start.spawned');
      if (isBackground) await lowerPriority(identity);
      await update({ vmm: identity });
      context.faults.reach('start.spawn-recorded');
    },
  };
}

function toBootArgs({ rootfs, bootArgs }: ResolvedSandboxOptions): string {
  if (rootfs.kind === 'agent') return GENERIC;
  return rootfs.agentPath === undefined ? bootArgs : `${AGENT_DISK} ${bootArgs}`.trim();
}

/** A VM that ended while no daemon was running, or with the host. */
async function findExited(
  engine: Engine | undefined,
  identity: VmmIdentity,
  known: VmExit | undefined,
): Promise<Vm> {
  return new EndedVm(identity, known ?? (await explainExit(engine, identity)));
}

async function explainExit(engine: Engine | undefined, identity: VmmIdentity): Promise<VmExit> {
  const unknown = { exitCode: null, signal: null };
  if (isOfEarlierBoot(identity))
    return { ...unknown, reason: 'the host was rebooted', rebootFoundAtMs: Date.now() };
  const reason = (await engine?.explainEnd(identity)) ?? `this daemon has no engine ${identity.engine}`;
  return { ...unknown, reason };
}

/** Whether the host was rebooted since it started. */
export function isOfEarlierBoot({ bootId }: VmmIdentity): boolean {
  return bootId !== readBootId();
}

function engineOf({ adopters }: ResourceContext, { engine }: VmmIdentity): Engine | undefined {
  return adopters.find(({ name }) => name === engine);
}
