// For making what may already be there.
import { errorCode } from './error-code.ts';

/** Runs `action`; that the thing exists (EEXIST) is fine. */
export function ignoreExisting(action: () => void): void {
  try {
    action();
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
}
