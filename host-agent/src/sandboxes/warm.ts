// Warms a guest up before it is saved: what is compiled, opened and cached here is there in every copy.
import { setTimeout as sleep } from 'node:timers/promises';
import { AGENT_DIR, ARCHITECTURE } from '@sandboxd/proto';
import type { Guest } from '../guest/guest.ts';
import { AppError } from '../lib/errors.ts';
import { readProcessUsage } from '../lib/process-usage.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import { makeIdentity } from './resources/agent.ts';
import type { Sandbox } from './sandbox.ts';

/** More rounds made no copy faster, measured by 20 creates of each in turn. */
const ROUNDS = 2;
/** A program that every guest has. Its exit code does not matter. */
const COMMAND = [`${AGENT_DIR}/lib/${ARCHITECTURE.loader}`, '--help'];
const COMMAND_TIMEOUT_S = 60;
/** Commands that load what most others read from their root file system, so that copies have it in memory. */
const COMMON_COMMANDS = [['true'], ['sh', '-c', 'true | true']];
/** A guest is idle if it used at most this much CPU time between each of the last samples. */
const QUIET_MS = 10;
const SAMPLE_MS = 250;
const QUIET_SAMPLES = 4;
const MAX_SAMPLES = 80;

export type WarmOptions = {
  /** Of one round. */
  readonly timeoutMs: number;
  /** A generic template has no root file system, and so none of its programs. */
  readonly hasRoot: boolean;
  readonly signal: AbortSignal;
};

/**
 * Uses the guest as its copies will be used, over separate connections. AppError when it hangs; it must not become a
 * template then.
 */
export async function warm(
  { id, awake: { guest, vm }, record }: Pick<Sandbox, 'id' | 'awake' | 'record'>,
  { timeoutMs, hasRoot, signal }: WarmOptions,
): Promise<void> {
  const tooLate = () => new AppError('internal', `the guest agent did not answer within ${timeoutMs} ms`);
  const countCommands = async (): Promise<number> => {
    using limit = deadline(timeoutMs, tooLate, signal);
    return (await guest.stats(limit.signal)).execCgroups;
  };
  // That of a profile whose copies find it running.
  const services = await countCommands();
  for (let round = 0; round < ROUNDS; round++) {
    using limit = deadline(timeoutMs, tooLate, signal);
    await guest.reconnect(`warm-${round}`, limit.signal);
    await guest.setIdentity(makeIdentity(id, record.network), limit.signal);
    await guest.trust({ isRehearsal: true }, limit.signal);
    await raceSignal(runAllKinds(guest, hasRoot), limit.signal);
  }
  await settle(() => readProcessUsage(vm.identity)?.cpuMs, signal);
  // No other process may run in a copy before the copy has an identity. Few root file systems have programs that leave
  // processes.
  if ((await countCommands()) > services)
    throw new AppError('internal', 'processes stayed when its first commands had ended');
}

/** Runs commands with and without stdin, and in a terminal. */
async function runAllKinds(guest: Guest, hasRoot: boolean): Promise<void> {
  await run(guest, {});
  if (hasRoot) for (const cmd of COMMON_COMMANDS) await run(guest, { cmd });
  await run(guest, { hasStdin: true });
  await run(guest, { tty: { cols: 80, rows: 24 } });
}

/**
 * Waits until the guest is idle. Otherwise each copy would repeat V8's background compilation during its first
 * commands, in private memory. `readCpuMs` returns the CPU time used so far.
 */
export async function settle(
  readCpuMs: () => number | undefined,
  signal: AbortSignal,
  wait: typeof sleep = sleep,
): Promise<void> {
  let beforeMs = readCpuMs() ?? 0;
  for (let sample = 0, quietSamples = 0; sample < MAX_SAMPLES && quietSamples < QUIET_SAMPLES; sample++) {
    await wait(SAMPLE_MS, undefined, { signal });
    const nowMs = readCpuMs() ?? beforeMs;
    quietSamples = nowMs - beforeMs <= QUIET_MS ? quietSamples + 1 : 0;
    beforeMs = nowMs;
  }
}

type RunOptions = {
  readonly cmd?: string[];
  readonly hasStdin?: boolean;
  readonly tty?: { readonly cols: number; readonly rows: number };
};

function run(guest: Guest, { cmd = COMMAND, hasStdin = false, tty }: RunOptions): Promise<void> {
  return new Promise((resolve) => {
    const session = guest.exec(
      { cmd, env: {}, timeout_s: COMMAND_TIMEOUT_S, ...(tty && { tty }) },
      { output: (_stream, chunk) => session.consumed(chunk.length), exit: () => resolve() },
      { hasStdin },
    );
    if (hasStdin) {
      session.write(Buffer.from('\n'));
      session.closeStdin();
    }
  });
}
