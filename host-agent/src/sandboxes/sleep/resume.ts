// Resumes a paused sandbox under its id, names and addresses. Until its guest runs, every failure leaves it paused;
// from then on it is a running sandbox, whatever fails.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WakeInput } from '@sandboxd/proto';
import type { Logger } from 'pino';
import { findTooOld } from '../../guest/identity.ts';
import { AppError, firstLine, isAppError, toError } from '../../lib/errors.ts';
import { readBootId } from '../../lib/proc.ts';
import { deadline, everyOne, raceSignal } from '../../lib/wait.ts';
import { asNoSpace } from '../admission.ts';
import { environmentOf, metadataOf } from '../metadata.ts';
import { pausesAtEnd, type SandboxRecord } from '../record.ts';
import { agent, connectTo, freshEntropy, networkOf, noteUntrusted } from '../resources/agent.ts';
import { makeSandboxDirs } from '../resources/files.ts';
import { ensureNetwork } from '../resources/network.ts';
import type { Handles, ResourceContext, StartContext, StartFrom } from '../resources/resource.ts';
import { vmm } from '../resources/vmm.ts';
import type { Sandbox } from '../sandbox.ts';
import { markAwake, openPaused, pausedDir, prepareAwake, readPaused } from '../saved/paused.ts';
import { findDifferences } from '../saved/saved-guest.ts';

const CONNECTIONS_MS = 2000;
/** Between attempts to wake a guest. */
const RETRY_MS = 1000;

export type ResumeInput = {
  readonly context: ResourceContext;
  readonly sandbox: Sandbox;
  readonly signal: AbortSignal;
  readonly log: Logger;
};

/**
 * Resolves when its guest answers. AppError conflict when the engine no longer matches, internal with the stage while
 * it stays paused; guest_unreachable when it runs but does not answer.
 */
export async function resumeSandbox(input: ResumeInput): Promise<void> {
  const { sandbox } = input;
  const before = sandbox.record;
  const signal = AbortSignal.any([input.signal, sandbox.leaving]);
  try {
    await (before.paused?.hasMemory === true
      ? restore({ ...input, signal }, before)
      : boot({ ...input, signal }, before));
  } catch (error) {
    if (sandbox.running !== undefined) throw error;
    sandbox.leaving.throwIfAborted();
    await stayPaused(input, before, error);
    input.signal.throwIfAborted();
    throw describeFailure(error);
  }
}

/** Nothing runs. Its files say whether it can go on from them; the registry follows. */
async function stayPaused(
  { context, sandbox, log }: ResumeInput,
  before: SandboxRecord,
  error: unknown,
): Promise<void> {
  const { phase } = (await readPaused(pausedDir(sandbox.paths.dir)).catch(() => undefined)) ?? {};
  if (before.paused?.hasMemory === true && phase === 'awake') {
    sandbox.fail({ reason: firstLine(toError(error)), exitCode: null, signal: null });
    return;
  }
  sandbox.transition('paused');
  await context.records.put(sandbox.id, before).catch((err) => {
    log.error({ err }, 'cannot record that a sandbox stays paused');
  });
}

async function restore(input: ResumeInput, before: SandboxRecord): Promise<void> {
  const { context, sandbox, signal, log } = input;
  const { faults, engines } = context;
  const dir = pausedDir(sandbox.paths.dir);
  const { vm: saved, manifest } = await openPaused(dir, sandbox.paths.layerPath, faults);
  const difference = findDifferences(manifest.compatibility, engines.current.compatibility());
  if (difference !== undefined) {
    const message = `sandbox ${sandbox.id} does not fit the engine any more: ${difference}`;
    throw new AppError('conflict', `${message}; start a daemon with the engine that it was paused with`);
  }
  let prepared: ReturnType<typeof prepareAwake> | undefined;
  const beforeRun = async (): Promise<void> => {
    signal.throwIfAborted();
    await start.replace({ ...toRunning(before), vmm: start.record.vmm });
    faults.reach('resume.recorded');
    signal.throwIfAborted();
    await markAwake(dir, faults, prepared);
  };
  const start = startContext(input, before, { kind: 'paused', saved, beforeRun });
  await makeSandboxDirs(sandbox.paths);
  await ensureNetwork(start);
  prepared = prepareAwake(dir);
  await everyOne([vmm.acquire(start), prepared]);
  const vm = start.handles.vm;
  if (vm === undefined) throw new Error('the VM was not acquired');
  const guest = connectTo(vm, start);
  start.handles.guest = guest;
  const slot = sandbox.record.network;
  // A network that was made again is without the connections that the guest knows.
  const isNetworkNew =
    slot !== undefined && (before.vmm?.bootId !== readBootId() || before.paused?.isMoved === true);
  const readNetwork = async (): Promise<Pick<WakeInput, 'network' | 'connections'>> => {
    if (slot === undefined) return {};
    if (isNetworkNew) return { network: networkOf(slot) };
    // Its processes are frozen until then.
    using limit = deadline(CONNECTIONS_MS, () => new Error('the list of connections takes too long'));
    const connections = await raceSignal(context.network.connections(slot), limit.signal).catch((err) => {
      log.warn({ err }, 'programs of a resumed sandbox notice late which connections are gone');
    });
    return connections === undefined ? {} : { connections };
  };
  const woken = Promise.withResolvers<void>();
  const wake = async (): Promise<void> => {
    try {
      const trust = context.authorities.trustOf(start.record);
      const entropy = freshEntropy();
      const problems = await guest.wake({ entropy, ...(await readNetwork()), ...(trust && { trust }) });
      // Its policy may have been changed while its agent could not be asked.
      const tooOld = findTooOld(trust, guest.can);
      noteUntrusted(start.handles, tooOld === undefined ? problems : [tooOld]);
      stopWaking();
      woken.resolve();
    } catch (err) {
      log.warn({ err }, 'cannot tell a guest that it was paused; trying again');
      await sleep(RETRY_MS, undefined, { ref: false });
      if (guest.isConnected) await wake();
    }
  };
  // Before anything else that a connection starts.
  const stopWaking = guest.watchConnections(() => void wake());
  sandbox.enter(start.record, vm, guest);
  try {
    const { bootTimeoutMs: timeoutMs } = context.settings;
    const tooLate = () =>
      new AppError(
        'guest_unreachable',
        `sandbox ${sandbox.id} was resumed, but its guest does not answer; trying again`,
      );
    using limit = deadline(timeoutMs, tooLate, sandbox.leaving);
    if (!(await guest.adopt(timeoutMs, { needsResync: manifest.needsResync }))) throw tooLate();
    await raceSignal(woken.promise, limit.signal);
    faults.reach('resume.woken');
  } catch (err) {
    if (!sandbox.leaving.aborted)
      log.warn({ err, diagnosis: await vm.diagnose() }, 'the guest of a resumed sandbox does not answer');
    throw err;
  } finally {
    if (sandbox.state === 'resuming') sandbox.wakeUp();
  }
  engines.markProven(start.engine);
  sandbox.assertAlive();
}

/** From its disk: another boot of the same machine. */
async function boot(input: ResumeInput, before: SandboxRecord): Promise<void> {
  const { context, sandbox } = input;
  const start = startContext(input, before, { kind: 'boot' });
  try {
    await makeSandboxDirs(sandbox.paths);
    await ensureNetwork(start);
    await vmm.acquire(start);
    await agent.acquire(start);
    const { vm, guest } = start.handles;
    if (vm === undefined || guest === undefined) throw new Error('the VM was not acquired');
    const service = before.paused?.service;
    if (service !== undefined) await guest.service.configure(service, environmentOf(before), start.signal);
    start.signal.throwIfAborted();
    const { system, engines } = context;
    const booted = { kernelDigest: system.kernel.digest, compatibility: engines.current.compatibility() };
    await start.replace({ ...toRunning(before), ...booted, vmm: start.record.vmm });
    context.faults.reach('resume.recorded');
    sandbox.enter(start.record, vm, guest);
    sandbox.wakeUp();
  } catch (error) {
    start.handles.guest?.close(toError(error));
    await start.handles.vm?.kill();
    throw error;
  }
}

/** A new incarnation: the guest stays frozen until it has entropy and the time. */
export function toRunning({ paused: _, ...record }: SandboxRecord): SandboxRecord {
  const running = { ...record, incarnation: randomUUID() };
  if (!pausesAtEnd(record) || record.options.timeoutS === 0) return running;
  const expiresAtMs = Date.now() + record.options.timeoutS * 1000;
  return { ...running, metadata: { ...metadataOf(record), expiresAtMs } };
}

export type ResumeContext = StartContext & { readonly replace: (record: SandboxRecord) => Promise<void> };

/** `isRecorded`: its record is the registry's; else only in this object. */
export function startContext(
  { context, sandbox, signal, log }: ResumeInput,
  before: SandboxRecord,
  origin: StartFrom,
  isRecorded = true,
): ResumeContext {
  let record = before;
  const handles: Handles = { sandboxLog: sandbox.log, network: before.network };
  const startAbort = new AbortController();
  const replace = async (next: SandboxRecord, also?: () => void): Promise<void> => {
    // The mark of a delete stays.
    sandbox.leaving.throwIfAborted();
    record = next;
    if (isRecorded) await context.records.put(sandbox.id, record, also);
  };
  return {
    id: sandbox.id,
    context,
    engine: context.engines.current,
    origin,
    isBackground: false,
    handles,
    log,
    signal: AbortSignal.any([signal, startAbort.signal]),
    abortStart: (reason) => startAbort.abort(reason),
    paths: sandbox.paths,
    get record() {
      return record;
    },
    update: async (change, also) => {
      await replace({ ...record, ...change }, also);
    },
    replace,
  };
}

function describeFailure(error: unknown): AppError {
  const noSpace = asNoSpace(error, 'resume the sandbox', 'restore');
  if (noSpace !== undefined) return noSpace;
  const code = isAppError(error) ? error.code : 'internal';
  const details = isAppError(error) ? error.details : {};
  const message = `cannot resume the sandbox, which stays paused: ${firstLine(toError(error))}`;
  return new AppError(code, message, { ...details, cause: toError(error) });
}
