// Creates something that may exist already.
import { errorCode } from './error-code.ts';

/** Runs `action` and ignores EEXIST. */
export function ignoreExisting(action: () => void): void {
  try {
    action();
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
}
