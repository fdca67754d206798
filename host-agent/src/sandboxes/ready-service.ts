// The service of a profile: it is started, and is ready when it answers at its port.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Guest } from '../guest/guest.ts';
import { AppError, isAppError } from '../lib/errors.ts';
import { deadline } from '../lib/wait.ts';
import type { ReadyService } from './template-choice.ts';

/** A guest on a busy host without hardware virtualization imports Python's large libraries meanwhile. */
export const READY_TIMEOUT_MS = 300_000;
const POLL_MS = 100;

/** AppError internal if it is not ready in time, or ends. */
export async function startReadyService(
  guest: Pick<Guest, 'service' | 'ports'>,
  { spec, port }: ReadyService,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const tooLate = () =>
    new AppError(
      'internal',
      `the profile's service did not answer at port ${port} in ${READY_TIMEOUT_MS} ms`,
    );
  using limit = deadline(READY_TIMEOUT_MS, tooLate, signal);
  await guest.service.configure(spec, env, limit.signal);
  while (!(await answers(guest, port, limit.signal))) {
    const { state, lastExit } = await guest.service.control('status', undefined, limit.signal);
    if (state === 'failed')
      throw new AppError('internal', `the profile's service failed: ${lastExit?.error ?? 'it ended'}`);
    await sleep(POLL_MS, undefined, { signal: limit.signal });
  }
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
