// The service of a profile: it is started, and is ready when it answers at its port.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecOutcome } from '../guest/exec.ts';
import type { Guest } from '../guest/guest.ts';
import { AppError, isAppError } from '../lib/errors.ts';
import { deadline } from '../lib/wait.ts';
import type { ReadyService } from './template-choice.ts';

/** A guest on a busy host without hardware virtualization imports Python's large libraries meanwhile. */
export const READY_TIMEOUT_MS = 300_000;
const POLL_MS = 100;
/** It is always restarted, but one that ends this often before it answers will not answer. */
const MAX_RESTARTS = 3;
const STAGE = 'service';

/** Whether the guest is good, and its service is not. */
export function isServiceFailure(error: unknown): boolean {
  return isAppError(error) && error.details.stage === STAGE;
}

/** AppError internal of the stage `service` if it is not ready in time, or ends again and again. */
export async function startReadyService(
  guest: Pick<Guest, 'service' | 'ports'>,
  { spec, port }: ReadyService,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
  timeoutMs = READY_TIMEOUT_MS,
): Promise<void> {
  let last = '';
  const failure = (what: string) =>
    new AppError('internal', `the profile's service ${what} at port ${port}${last}`, { stage: STAGE });
  const tooLate = () => failure(`did not answer within ${timeoutMs} ms`);
  using limit = deadline(timeoutMs, tooLate, signal);
  await guest.service.configure(spec, env, limit.signal);
  while (!(await answers(guest, port, limit.signal))) {
    const status = await guest.service.control('status', undefined, limit.signal);
    const { state, lastExit, restarts = 0 } = status;
    if (lastExit !== undefined) last = `; last it ended with ${describeExit(lastExit)}`;
    if (state === 'failed') throw failure('failed before it answered');
    if (restarts >= MAX_RESTARTS) throw failure(`ended ${restarts} times before it answered`);
    // It rejects with an error of its own.
    await sleep(POLL_MS, undefined, { signal: limit.signal }).catch(() => limit.signal.throwIfAborted());
  }
}

function describeExit({ exitCode, signal, oomKilled, error }: ExecOutcome): string {
  if (oomKilled) return 'too little memory';
  return error ?? signal ?? `exit code ${exitCode}`;
}

async function answers(guest: Pick<Guest, 'ports'>, port: number, signal: AbortSignal): Promise<boolean> {
  try {
    const connection = await guest.ports.connect(port, { signal });
    connection.on('error', () => undefined);
    connection.destroy();
    return true;
  } catch (error) {
    signal.throwIfAborted();
    if (isAppError(error) && error.code === 'port_not_listening') return false;
    throw error;
  }
}
