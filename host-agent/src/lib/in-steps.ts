// Answers whose time says little about why they are what they are.
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from './errors.ts';

/** What is not there, and what the client may not see, are answered at the same steps of time. */
const STEP_MS = 100;

/** A refusal with one of these codes waits for the next step. */
export async function inSteps<T>(codes: readonly string[], look: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  try {
    return await look();
  } catch (error) {
    if (error instanceof AppError && codes.includes(error.code))
      await sleep(STEP_MS - ((performance.now() - startedAt) % STEP_MS), undefined, { ref: false });
    throw error;
  }
}
