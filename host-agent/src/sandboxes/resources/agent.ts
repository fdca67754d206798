// The connection to a sandbox's guest agent. Once acquired, the guest has this sandbox's identity.
import { createHash, randomBytes } from 'node:crypto';
import { AgentError, type IdentityInput, type NetworkInput } from '@sandboxd/proto';
import type { Vm } from '../../engines/engine.ts';
import { nowUs } from '../../guest/clock.ts';
import { Guest } from '../../guest/guest.ts';
import { AppError } from '../../lib/errors.ts';
import { deadline, raceSignal } from '../../lib/wait.ts';
import type { NetworkSlot } from '../../network/subnet.ts';
import { metadataOf } from '../metadata.ts';
import { pausedDir, readPaused } from '../saved/paused.ts';
import type { Handles, Resource, SandboxContext, StartContext } from './resource.ts';

/** A starting daemon waits at least this long for guests to answer; longer if the watchdog's timeout is long. */
const MIN_HELLO_WAIT_MS = 5000;
/** Share of the watchdog's timeout: one hanging guest must not delay the adoption of the others for all of it. */
const HELLO_WAIT_SHARE = 1 / 3;
/** A connection breaks a moment before the exit of its VMM is noticed. */
const EXIT_WAIT_MS = 300;
/** The same for a VMM that is known to be exiting. */
const ENDING_WAIT_MS = 10_000;

export const agent: Resource = {
  stage: () => 'agent',

  async acquire(start) {
    const { context, handles, signal } = start;
    const vm = vmOf(start);
    handles.guest = connectTo(vm, start);
    const { origin } = start;
    const extraMs = origin.kind === 'boot' ? (origin.template?.extraMs ?? 0) : 0;
    const timeoutMs = context.settings.bootTimeoutMs + extraMs;
    const tooLate = () =>
      new AppError('internal', `the guest agent did not answer within ${timeoutMs} ms`, { isTimeout: true });
    using limit = deadline(timeoutMs, tooLate, signal);
    await identify(handles.guest, start, limit.signal);
    context.engines.markProven(start.engine);
    context.faults.reach('start.agent');
  },

  async adopt(sandbox) {
    const { context, handles, log, paths, record } = sandbox;
    if (handles.vm === undefined) return;
    const guest = connectTo(handles.vm, sandbox);
    handles.guest = guest;
    if (handles.vm.exit !== undefined) return;
    const paused = await readPaused(pausedDir(paths.dir)).catch(() => undefined);
    if (paused?.phase === 'awake') {
      // The daemon that resumed it may have been killed before its guest was woken; twice does no harm.
      const stopWaking = guest.watchConnections(() => {
        const trust = context.authorities.trustOf(record);
        const woken = guest.wake({ entropy: freshEntropy(), ...(trust && { trust }) });
        woken.then(stopWaking, (err) =>
          log.warn({ err }, 'cannot tell a guest that it was paused; trying again'),
        );
      });
    }
    // A change of its policy that the earlier daemon did not complete.
    if (record.networkBefore !== undefined) keepTrust(guest, sandbox);
    const waitMs = Math.max(MIN_HELLO_WAIT_MS, context.settings.watchdogTimeoutMs * HELLO_WAIT_SHARE);
    // A silent agent is adopted as well; the connection is retried.
    if (!(await guest.adopt(waitMs))) log.warn('a guest agent does not answer after the restart; retrying');
  },

  async release({ handles, reason }) {
    handles.guest?.close(new Error(reason));
  },
};

export function connectTo(vm: Vm, { record, log }: Pick<SandboxContext, 'record' | 'log'>): Guest {
  return new Guest({
    source: vm,
    incarnation: record.incarnation,
    log,
    explainLoss: () => explainExit(vm),
  });
}

/** Gives the guest its identity, before any client can reach it. */
async function identify(guest: Guest, start: StartContext, signal: AbortSignal): Promise<void> {
  const { id, origin, handles, log, context } = start;
  const { pidsLimit } = context.settings;
  const needsResync = origin.kind === 'saved' && origin.saved.manifest.needsResync;
  const hello = await raceSignal(guest.connect(signal, { needsResync }), signal);
  if (origin.kind === 'boot' && origin.template !== undefined) {
    // What fails from now on is not the fault of the engine.
    context.engines.markProven(start.engine);
    await origin.template.save(start, signal);
  }
  const isGeneric = origin.kind === 'saved' && origin.saved.isGeneric;
  try {
    const environment = metadataOf(start.record).env.map(([name, value]) => `${name}=${value}`);
    const root = isGeneric ? { entersRoot: true } : {};
    const trust = context.authorities.trustOf(start.record);
    const named = { ...makeIdentity(id, handles.network), ...root, environment, pidsLimit };
    noteUntrusted(handles, await guest.setIdentity({ ...named, ...(trust && { trust }) }, signal));
  } catch (error) {
    // A root file system that cannot be entered does not mean that the generic template is bad.
    if (!isGeneric || !(error instanceof AgentError) || error.code !== 'not_found') throw error;
    throw new AppError('internal', error.message, { stage: 'root', cause: error });
  }
  log.debug({ agentStartUs: hello.agentStartUs, agentReadyUs: hello.agentReadyUs }, 'agent answered');
}

/** With its next connection, the guest trusts what its policy needs then. */
function keepTrust(guest: Guest, { context, record, handles, log }: SandboxContext): void {
  const trust = context.authorities.trustOf(record);
  if (trust === undefined) return;
  const stop = guest.watchConnections(() => {
    guest.trust(trust).then(
      (problems) => {
        stop();
        noteUntrusted(handles, problems);
      },
      (err) => log.warn({ err }, 'a guest does not trust the authority of inspected TLS; trying again'),
    );
  });
}

/** `problems`: where its guest could not add the authority of inspected TLS. */
export function noteUntrusted(
  { sandboxLog }: Pick<Handles, 'sandboxLog'>,
  problems: readonly string[],
): void {
  for (const problem of problems)
    sandboxLog?.event('exec', `network: the certificate authority could not be added: ${problem}`);
}

/** Returns the reason of the VM's exit; undefined when it has not exited within a moment and is not exiting. */
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
  if (handles.vm === undefined) throw new Error('the VM must be acquired before the connection to its agent');
  return handles.vm;
}

const ENTROPY_BYTES = 64;

export function freshEntropy(): Buffer {
  return randomBytes(ENTROPY_BYTES);
}

/** Without `network` the guest has only the loopback interface. */
export function makeIdentity(sandboxId: string, network?: NetworkSlot): IdentityInput {
  return {
    sandboxId,
    hostname: sandboxId.replaceAll('_', '-'),
    // A sandbox that boots again after a pause has the same.
    machineId: createHash('sha256').update(sandboxId).digest('hex').slice(0, 32),
    entropy: freshEntropy(),
    unixTimeUs: nowUs(),
    ...(network !== undefined && { network: networkOf(network) }),
  };
}

export function networkOf({ mac, gatewayMac, guestIp, gateway, prefixLength }: NetworkSlot): NetworkInput {
  return { mac, gatewayMac, address: guestIp, prefixLength, gateway, dns: gateway };
}
