// Using a guest before it is saved: what runs once is compiled, opened and cached in every copy.
import { setTimeout as sleep } from 'node:timers/promises';
import { AGENT_DIR } from '@sandboxd/proto';
import type { Guest } from '../guest/guest.ts';
import { AppError } from '../lib/errors.ts';
import { readProcessUsage } from '../lib/process-usage.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import { makeIdentity } from './identity.ts';
import type { Sandbox } from './sandbox.ts';

/** More of them made no copy faster, by 20 creates of each in turn. */
const ROUNDS = 2;
/** A program that every guest has. Its outcome does not matter, nor that of the others. */
const COMMAND = [`${AGENT_DIR}/lib/ld-linux-x86-64.so.2`, '--help'];
const COMMAND_TIMEOUT_S = 60;
/** What most commands read of their root, where it has them: a copy has it in memory. */
const USUAL = [['true'], ['sh', '-c', 'true | true']];
/** A guest that has used no more CPU time than this in each of the last looks has nothing left to do. */
const QUIET_MS = 10;
const LOOK_MS = 250;
const QUIET_LOOKS = 4;
const MAX_LOOKS = 80;

export type WarmOptions = {
  /** Of a round. */
  readonly timeoutMs: number;
  /** Somebody waits for it: only what makes most of the difference is done. */
  readonly isAwaited: boolean;
  readonly signal: AbortSignal;
};

/** As its copies will be used, over connections of their own. AppError when it hangs meanwhile: it makes no template. */
export async function warm(
  { id, guest, record, vm }: Pick<Sandbox, 'id' | 'guest' | 'record' | 'vm'>,
  { timeoutMs, isAwaited, signal: outer }: WarmOptions,
): Promise<void> {
  const tooLate = () => new AppError('internal', `the guest agent did not answer within ${timeoutMs} ms`);
  for (let round = 0; round < ROUNDS; round++) {
    using limit = deadline(timeoutMs, tooLate, outer);
    await guest.reconnect(`warm-${round}`, limit.signal);
    await guest.setIdentity(makeIdentity(id, record.network), limit.signal);
    await raceSignal(isAwaited ? run(guest, {}) : useAll(guest), limit.signal);
  }
  if (isAwaited) return;
  await settle(() => readProcessUsage(vm.identity)?.cpuMs, outer);
  using limit = deadline(timeoutMs, tooLate, outer);
  // Nothing may run in a copy before it has an identity; only an odd root has programs that stay behind so short commands.
  const { execCgroups } = await guest.stats(limit.signal);
  if (execCgroups > 0) throw new AppError('internal', 'processes stayed when its first commands had ended');
}

/** Commands on every way that the guest has. */
async function useAll(guest: Guest): Promise<void> {
  await run(guest, {});
  for (const cmd of USUAL) await run(guest, { cmd });
  await run(guest, { hasStdin: true });
  await run(guest, { tty: { cols: 80, rows: 24 } });
}

/**
 * Waits until the guest has nothing left to do. What V8 compiles behind the last command would otherwise be compiled anew by
 * each copy, in the time of its first commands and into memory of its own. `readCpuMs` gives the CPU time that it has used.
 */
export async function settle(
  readCpuMs: () => number | undefined,
  signal: AbortSignal,
  wait: typeof sleep = sleep,
): Promise<void> {
  let beforeMs = readCpuMs() ?? 0;
  for (let look = 0, quietLooks = 0; look < MAX_LOOKS && quietLooks < QUIET_LOOKS; look++) {
    await wait(LOOK_MS, undefined, { signal });
    const nowMs = readCpuMs() ?? beforeMs;
    quietLooks = nowMs - beforeMs <= QUIET_MS ? quietLooks + 1 : 0;
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
