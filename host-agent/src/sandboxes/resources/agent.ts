// The connection to a sandbox's guest agent. Whoever has it can be sure that the guest is this sandbox and no other.
import { AgentError } from '@sandboxd/proto';
import type { Vm } from '../../engines/engine.ts';
import { Guest } from '../../guest/guest.ts';
import { AppError } from '../../lib/errors.ts';
import { deadline, raceSignal } from '../../lib/wait.ts';
import { makeIdentity } from '../identity.ts';
import type { Resource, SandboxContext, StartContext } from './resource.ts';

/** The start of a daemon waits at least so long for guests to answer, and on a host whose guests may take longer, longer. */
const LEAST_HELLO_WAIT_MS = 5000;
/** Of the time after which a guest hangs: one that does must not hold up all the others for all of it. */
const HELLO_WAIT_SHARE = 1 / 3;
/** A connection breaks a moment before the end of its VMM is seen. */
const EXIT_WAIT_MS = 300;
/** The same for one that is known to be ending. */
const ENDING_WAIT_MS = 10_000;

export const agent: Resource = {
  stage: () => 'agent',

  async acquire(start) {
    const { context, handles, signal } = start;
    const vm = vmOf(start);
    handles.guest = connectionTo(vm, start);
    const { bootTimeoutMs: timeoutMs } = context;
    const tooLate = () =>
      new AppError('internal', `the guest agent did not answer within ${timeoutMs} ms`, { isTimeout: true });
    using limit = deadline(timeoutMs, tooLate, signal);
    await greet(handles.guest, start, limit.signal);
    context.engines.markProven(start.engine);
    context.faults.reach('start.agent');
  },

  async adopt(sandbox) {
    const { context, handles, log } = sandbox;
    if (handles.vm === undefined) return;
    handles.guest = connectionTo(handles.vm, sandbox);
    if (handles.vm.exit !== undefined) return;
    const waitMs = Math.max(LEAST_HELLO_WAIT_MS, context.watchdogTimeoutMs * HELLO_WAIT_SHARE);
    // One that has not answered by then is adopted all the same; its connection is tried on.
    if (!(await handles.guest.adopt(waitMs)))
      log.warn('a guest agent does not answer after the restart; trying on');
  },

  async release({ handles, why }) {
    handles.guest?.close(new Error(why));
  },
};

function connectionTo(vm: Vm, { record, log }: SandboxContext): Guest {
  return new Guest({
    source: vm,
    incarnation: record.incarnation,
    log,
    explainLoss: () => explainExit(vm),
  });
}

/** Until the guest is who it shall be, before anyone can reach it. */
async function greet(
  guest: Guest,
  { id, origin, handles, log, context: { pidsLimit } }: StartContext,
  signal: AbortSignal,
): Promise<void> {
  const needsResync = origin.kind === 'saved' && origin.saved.manifest.needsResync;
  const hello = await raceSignal(guest.connect(signal, { needsResync }), signal);
  const isBare = origin.kind === 'saved' && origin.saved.isBare;
  try {
    const root = isBare ? { entersRoot: true } : {};
    await guest.setIdentity({ ...makeIdentity(id, handles.network), ...root, pidsLimit }, signal);
  } catch (error) {
    // A root that cannot be entered says nothing about the guest that was saved without it.
    if (!isBare || !(error instanceof AgentError) || error.code !== 'not_found') throw error;
    throw new AppError('internal', error.message, { stage: 'root', cause: error });
  }
  log.debug({ agentStartUs: hello.agentStartUs, agentReadyUs: hello.agentReadyUs }, 'agent answered');
}

/** The reason once the VM has ended, undefined when it has not within a moment and does not seem about to. */
export async function explainExit(vm: Pick<Vm, 'exited' | 'isEnding'>): Promise<string | undefined> {
  const reason = await exitWithin(vm, EXIT_WAIT_MS);
  if (reason !== undefined || !(await vm.isEnding())) return reason;
  return exitWithin(vm, ENDING_WAIT_MS);
}

function exitWithin({ exited }: Pick<Vm, 'exited'>, ms: number): Promise<string | undefined> {
  const timeout = new Promise<undefined>((resolve) => setTimeout(resolve, ms, undefined).unref());
  return Promise.race([exited.then(({ reason }) => reason), timeout]);
}

function vmOf({ handles }: SandboxContext): Vm {
  if (handles.vm === undefined) throw new Error('a VM comes before the connection to its agent');
  return handles.vm;
}
