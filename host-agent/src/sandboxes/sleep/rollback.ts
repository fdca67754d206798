// A sandbox goes back to a snapshot: under its id, names and addresses another guest runs, with the memory and the disk
// of the snapshot. Until that guest has answered, every failure and every crash leads back to the sandbox's own files.
import type PQueue from 'p-queue';
import type { Vm } from '../../engines/engine.ts';
import { enqueue } from '../../lib/concurrency-limit.ts';
import { AppError, firstLine, isAppError, toError } from '../../lib/errors.ts';
import { type Admission, asNoSpace } from '../admission.ts';
import { goneSandbox, type SandboxRecord } from '../record.ts';
import { agent } from '../resources/agent.ts';
import { makeSandboxDirs } from '../resources/files.ts';
import { ensureNetwork } from '../resources/network.ts';
import { stop, vmm } from '../resources/vmm.ts';
import type { Sandbox } from '../sandbox.ts';
import { exchange, prepareExchange, removeExchange, undoExchange } from '../saved/exchange.ts';
import type { SavedGuest } from '../saved/saved-guest.ts';
import type { ResolvedSandboxOptions } from '../types.ts';
import { toForkNeed } from '../usage.ts';
import { pauseSandbox } from './pause.ts';
import { type ResumeContext, type ResumeInput, resumeSandbox, startContext, toRunning } from './resume.ts';

/** The snapshot to go back to. */
export type Target = { readonly snapshotId: string; readonly saved: SavedGuest };

type RollbackInput = ResumeInput &
  Target & {
    readonly admission: Pick<Admission, 'reserve'>;
    readonly startQueue: PQueue;
    readonly admitResume: (sandbox: Sandbox) => Disposable;
    /** It is paused, and its VMM has only to be ended; `endVm` does that. */
    readonly onAsleep: (vm: Vm) => void;
    readonly endVm: () => Promise<void>;
    /** Connections to its published ports wait until it runs. */
    readonly holdPorts: () => Promise<void>;
  };

/** If it rejects, the sandbox has its own memory and disk, and goes on if it ran. */
export async function rollBackSandbox(input: RollbackInput): Promise<void> {
  const { context, sandbox, saved, admission, startQueue, admitResume, endVm, holdPorts, signal } = input;
  const startedAt = performance.now();
  if (sandbox.isGone) throw goneSandbox(sandbox);
  await settleRollback(input);
  await sandbox.changes.onIdle();
  assertSameMachine(sandbox, saved.manifest.options);
  const { state, record, paths } = sandbox;
  const wasRunning = state === 'running';
  try {
    await context.engines.chosen(signal);
    const { memoryMib, diskBytes } = record.options;
    const { reservesDisks } = context.settings;
    const need = await toForkNeed(saved, 1, reservesDisks, context.engines.current);
    using _admitted = state === 'paused' ? admitResume(sandbox) : undefined;
    // One that runs keeps the memory that it has, but is saved first.
    const running = { memoryMib: [], diskBytes: need.diskBytes + memoryMib * 2 ** 20 };
    using _reservation = await admission.reserve({ ...need, ...(wasRunning && running) });
    sandbox.isReplaced = wasRunning;
    await saved.use(async () => {
      await prepareExchange(paths, saved.diskPath, reservesDisks ? diskBytes : undefined);
      context.faults.reach('rollback.prepared');
      await holdPorts();
      if (wasRunning) await pauseSandbox({ ...input, hasMemory: true, reason: 'rollback' });
      if (state === 'failed') dropFailed(sandbox);
      await endVm();
      await enqueue(startQueue, () => enterSnapshot(input, startedAt), signal);
    });
  } catch (error) {
    if (sandbox.record.isRollingBack !== true) await removeExchange(paths).catch(() => undefined);
    sandbox.leaving.throwIfAborted();
    if (wasRunning && sandbox.state === 'paused') await goOn(input);
    signal.throwIfAborted();
    throw describeFailure(error, sandbox.state);
  } finally {
    sandbox.isReplaced = false;
  }
}

/**
 * The sandbox is paused, or its VMM has ended; its exchange is prepared. Resolves when the guest of the snapshot can be
 * used; if it rejects, the sandbox is as before.
 */
async function enterSnapshot(input: RollbackInput, startedAt: number): Promise<void> {
  const { context, sandbox, snapshotId, saved, log } = input;
  const { records, faults, engines, events } = context;
  const { record: before, paths } = sandbox;
  const signal = AbortSignal.any([input.signal, sandbox.leaving]);
  const first = toFirstRecord(before, saved, engines.current.compatibility());
  const start = startContext({ ...input, signal }, first, { kind: 'saved', saved }, false);
  signal.throwIfAborted();
  sandbox.transition('resuming');
  let isCommitted = false;
  try {
    const marked = { ...before, isRollingBack: true };
    sandbox.record = marked;
    await records.put(sandbox.id, marked);
    // A crash of the host must not forget the mark and keep the exchange.
    await records.flush();
    faults.reach('rollback.recorded');
    await exchange(paths);
    faults.reach('rollback.exchanged');
    const running = await startGuest(start);
    faults.reach('rollback.identified');
    await sandbox.changes.add(async () => {
      start.signal.throwIfAborted();
      if (running.vm.exit !== undefined) throw new AppError('internal', running.vm.exit.reason);
      const next = { ...start.record, parentSnapshotId: snapshotId };
      const durationMs = Math.round(performance.now() - startedAt);
      const event = { kind: 'rolled-back', sandbox: sandbox.id, snapshot: snapshotId, durationMs } as const;
      const pending = events.prepare(event, next.owner, next.metadata);
      await records.put(sandbox.id, next, pending.persist);
      isCommitted = true;
      sandbox.log?.changeGuest(`rolled back to snapshot ${snapshotId}`);
      sandbox.enter(next, running.vm, running.guest);
      if (sandbox.state === 'resuming') sandbox.wakeUp();
      pending.publish();
    });
  } catch (error) {
    if (!isCommitted) await goBack(input, start, before);
    throw error;
  }
  try {
    faults.reach('rollback.committed');
    await records.flush();
    await removeExchange(paths);
  } catch (err) {
    log.warn({ err }, 'cannot remove what a sandbox was before its rollback; the next daemon does');
  }
}

/** Its commands are frozen until it has this sandbox's identity. */
async function startGuest(start: ResumeContext) {
  await makeSandboxDirs(start.paths);
  await ensureNetwork(start);
  await vmm.acquire(start);
  await agent.acquire(start);
  start.signal.throwIfAborted();
  const { vm, guest } = start.handles;
  if (vm === undefined || guest === undefined) throw new Error('the VM was not acquired');
  return { vm, guest };
}

async function goBack(
  { context, sandbox, onAsleep, log }: RollbackInput,
  { handles: { vm, guest } }: ResumeContext,
  before: SandboxRecord,
): Promise<void> {
  guest?.close(new Error('the rollback has failed'));
  try {
    if (vm !== undefined) {
      await stop(vm).catch((error) => {
        onAsleep(vm);
        throw error;
      });
    }
    if (sandbox.leaving.aborted) return;
    await undoExchange(sandbox.paths);
    await putBack(context, sandbox, before);
  } catch (err) {
    // The next resume or the next daemon undoes it.
    log.error({ err }, 'cannot undo the rollback of a sandbox');
  } finally {
    if (sandbox.state === 'resuming') sandbox.transition(before.exit === undefined ? 'paused' : 'failed');
  }
}

/** Undoes a rollback that could not be undone when it failed. */
export async function settleRollback({
  context,
  sandbox,
}: Pick<ResumeInput, 'context' | 'sandbox'>): Promise<void> {
  const { isRollingBack, ...before } = sandbox.record;
  if (isRollingBack !== true) return;
  await undoExchange(sandbox.paths);
  await putBack(context, sandbox, before);
}

async function putBack(
  { records }: ResumeInput['context'],
  sandbox: Sandbox,
  before: SandboxRecord,
): Promise<void> {
  // A delete that begins later writes its mark after this.
  if (sandbox.leaving.aborted) return;
  const written = records.put(sandbox.id, before);
  sandbox.record = before;
  await written;
}

/** It was paused for nothing, and goes on. */
async function goOn(input: RollbackInput): Promise<void> {
  const { context, sandbox, endVm, log } = input;
  const { paused, owner, metadata } = sandbox.record;
  const startedAt = performance.now();
  sandbox.transition('resuming');
  try {
    await endVm();
    await settleRollback(input);
    // A daemon that stops resumes it, too.
    await resumeSandbox({ ...input, signal: new AbortController().signal });
    const durationMs = Math.round(performance.now() - startedAt);
    const asleepMs = Math.max(0, Date.now() - (paused?.atMs ?? Date.now()) - durationMs);
    const event = { kind: 'resumed', sandbox: sandbox.id, reason: 'rollback', durationMs, asleepMs } as const;
    context.events.emit(event, owner, metadata);
  } catch (err) {
    log.error({ err }, 'cannot resume a sandbox whose rollback has failed; it stays paused');
  } finally {
    if (sandbox.state === 'resuming') sandbox.transition('paused');
  }
}

/** Its VM has ended: nothing of it is needed, except why. */
function dropFailed(sandbox: Sandbox): void {
  const exit = sandbox.record.exit ?? sandbox.running?.vm.exit;
  sandbox.record = { ...sandbox.record, ...(exit !== undefined && { exit }) };
  sandbox.dropVm(`sandbox ${sandbox.id} was rolled back`);
}

/** Of the guest that starts. */
function toFirstRecord(
  before: SandboxRecord,
  { manifest }: SavedGuest,
  compatibility: Readonly<Record<string, string>>,
): SandboxRecord {
  const { exit: _, ...running } = toRunning(before);
  const options = { ...before.options, rootfs: manifest.options.rootfs };
  return { ...running, options, kernelDigest: manifest.kernelDigest, compatibility };
}

/** AppError conflict if that guest cannot run as this sandbox. */
function assertSameMachine({ id, record }: Sandbox, saved: ResolvedSandboxOptions): void {
  const { options } = record;
  const facts = ({ vcpus, memoryMib, diskBytes, rootfs, network }: ResolvedSandboxOptions) => ({
    ...{ vcpus, memory: memoryMib, disk: diskBytes, root: rootfs.digest, network: network !== undefined },
  });
  const other: Readonly<Record<string, unknown>> = facts(saved);
  const different = Object.entries(facts(options)).flatMap(([what, value]) =>
    other[what] === value ? [] : [what],
  );
  if (different.length > 0) {
    const message = `sandbox ${id} cannot go back to that snapshot, which has another ${different.join(', ')}`;
    throw new AppError('conflict', `${message}; fork the snapshot`);
  }
  if (options.network === undefined || record.network !== undefined) return;
  const message = `sandbox ${id} cannot go back, as a reboot of the host has ended its network`;
  throw new AppError('conflict', `${message}; fork the snapshot`);
}

/** `state`: of the sandbox now. */
function describeFailure(error: unknown, state: string): AppError {
  const noSpace = asNoSpace(error, 'roll the sandbox back', 'restore');
  if (noSpace !== undefined) return noSpace;
  const code = isAppError(error) ? error.code : 'internal';
  const details = isAppError(error) ? error.details : {};
  const message = `cannot roll the sandbox back; it is ${state}, with its own memory and disk`;
  return new AppError(code, `${message}: ${firstLine(toError(error))}`, {
    ...details,
    cause: toError(error),
  });
}
