// Pauses a sandbox: its guest is saved, then its VMM is ended. Until everything is on disk, every failure leaves it
// running; from then on it is paused, whatever fails.
import type { ServiceSpec } from '@sandboxd/api';
import type { Logger } from 'pino';
import type { Vm } from '../../engines/engine.ts';
import type { Guest } from '../../guest/guest.ts';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { asNoSpace } from '../admission.ts';
import type { LifecycleEvent } from '../lifecycle-events.ts';
import type { PausedRecord } from '../record.ts';
import { explainExit } from '../resources/agent.ts';
import type { ResourceContext } from '../resources/resource.ts';
import { stop } from '../resources/vmm.ts';
import type { Sandbox } from '../sandbox.ts';
import type { EarlierCopy } from '../saved/earlier-copy.ts';
import { pausedDir, pauseGuest, settlePaused } from '../saved/paused.ts';
import { removeSaved } from '../saved/saved-guest.ts';
import { storedBytesIn } from './stored.ts';

export type PauseReason = 'request' | 'idle_timeout_s' | 'timeout_s' | 'rollback';

export type PauseOptions = {
  /** Else only its disk is kept, and it boots again. */
  readonly hasMemory: boolean;
  readonly reason: PauseReason;
  /** Until everything is on disk it lets the sandbox run on. */
  readonly signal: AbortSignal;
  /** It leaves its host: `endVm` of the caller ends its VMM, and what settles it comes with its next use here. */
  readonly leaves?: boolean;
  readonly since?: EarlierCopy | undefined;
};

/** What was saved, and how long it took. */
type Saved = { readonly pausedMs: number; readonly bytesWritten: number };

type PauseInput = PauseOptions & {
  readonly context: ResourceContext;
  readonly sandbox: Sandbox;
  readonly log: Logger;
  /** It is paused, and its VMM has only to be ended. */
  readonly onAsleep: (vm: Vm) => void;
};

/** AppError if it runs on: of its state, exhausted, internal with the stage. */
export async function pauseSandbox(input: PauseInput): Promise<void> {
  const { context, sandbox, hasMemory, reason, signal, log } = input;
  const { faults, events, records } = context;
  signal.throwIfAborted();
  sandbox.assertAlive();
  const startedAt = performance.now();
  const running = sandbox.awake;
  sandbox.transition('pausing');
  running.isSaving = true;
  const fallAsleep = (paused: PausedRecord): void => {
    if (sandbox.state !== 'pausing') return;
    input.onAsleep(running.vm);
    sandbox.fallAsleep(paused, reason === 'rollback' ? 'rolled back' : 'paused');
  };
  let saved: Saved;
  try {
    saved = await (hasMemory ? saveMemory(input, fallAsleep) : saveDisk(input, fallAsleep));
  } catch (error) {
    running.isSaving = false;
    if (sandbox.state === 'pausing') sandbox.transition('running');
    signal.throwIfAborted();
    // If it died or is being deleted, that is the better reason; what it was asked fails a moment earlier.
    if (!sandbox.leaving.aborted) await explainExit(running.vm);
    sandbox.assertAlive();
    throw describeFailure(error);
  }
  const storedBytes = await storedBytesIn(pausedDir(sandbox.paths.dir));
  if (sandbox.leaving.aborted) await stop(running.vm);
  // No await from here to the write, which must not replace the mark of a delete.
  sandbox.leaving.throwIfAborted();
  const { record } = sandbox;
  sandbox.record = { ...record, ...(record.paused && { paused: { ...record.paused, storedBytes } }) };
  const event: LifecycleEvent = {
    kind: 'paused',
    sandbox: sandbox.id,
    reason,
    hasMemory,
    durationMs: Math.round(performance.now() - startedAt),
    pausedMs: Math.round(saved.pausedMs),
    bytes: saved.bytesWritten,
  };
  const pending = events.prepare(event, record.owner, record.metadata);
  await records.put(sandbox.id, sandbox.record, pending.persist).catch((err) => {
    // Its files say that it is paused; the next daemon reads them.
    log.error({ err }, 'cannot record that a sandbox is paused');
  });
  pending.publish();
  faults.reach('pause.recorded');
  if (input.leaves !== true) await endVm(input, running.vm);
}

async function endVm({ context, sandbox, hasMemory, log }: PauseInput, vm: Vm): Promise<void> {
  const dir = pausedDir(sandbox.paths.dir);
  try {
    await stop(vm);
    context.faults.reach('pause.killed');
    await (hasMemory ? settlePaused(dir, context.faults) : removeSaved(dir));
  } catch (err) {
    // The resume tries again.
    log.error({ err }, 'cannot clean up behind the pause of a sandbox');
  }
}

async function saveMemory(
  { context, sandbox, signal, since }: PauseInput,
  onDurable: (paused: PausedRecord) => void,
): Promise<Saved> {
  const { record, paths } = sandbox;
  const { vm, guest } = sandbox.awake;
  return await pauseGuest({
    dir: pausedDir(paths.dir),
    vm,
    guest,
    layerPath: paths.layerPath,
    memoryBytes: record.options.memoryMib * 2 ** 20,
    compatibility: record.compatibility,
    faults: context.faults,
    since,
    onDurable: () => onDurable({ ...newPaused(), hasMemory: true }),
    signal: AbortSignal.any([signal, sandbox.leaving]),
  });
}

/** The registry decides: the record is written while the guest's commands are frozen and its disk is written out. */
async function saveDisk(
  { context, sandbox, signal }: PauseInput,
  onDurable: (paused: PausedRecord) => void,
): Promise<Saved> {
  const { guest } = sandbox.awake;
  const { faults, records } = context;
  const service = await readService(guest);
  const startedAt = performance.now();
  let isDurable = false;
  try {
    await guest.hold({ sync: true });
    await using layer = await openRegular(sandbox.paths.layerPath);
    await layer.sync();
    faults.reach('pause.flushed');
    signal.throwIfAborted();
    sandbox.leaving.throwIfAborted();
    const paused = { ...newPaused(), ...(service !== undefined && { service }) };
    await records.put(sandbox.id, { ...sandbox.record, paused });
    isDurable = true;
    onDurable(paused);
    faults.reach('pause.durable');
  } finally {
    guest.release();
    if (!isDurable) guest.stepClock();
  }
  return { pausedMs: performance.now() - startedAt, bytesWritten: 0 };
}

/** Of a sandbox whose disk alone is kept. */
function newPaused(): PausedRecord {
  return { atMs: Date.now(), hasMemory: false, storedBytes: 0 };
}

/** The service that runs, which a boot must start again. */
async function readService(guest: Guest): Promise<ServiceSpec | undefined> {
  const { state, spec } = await guest.service.control('status');
  return state === 'running' || state === 'starting' || state === 'backing_off' ? spec : undefined;
}

function describeFailure(error: unknown): AppError {
  const noSpace = asNoSpace(error, 'pause the sandbox', 'save');
  if (noSpace !== undefined) return noSpace;
  if (isAppError(error)) return error;
  return new AppError('internal', `cannot pause the sandbox: ${toError(error).message}`, { cause: error });
}
