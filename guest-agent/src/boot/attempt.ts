// Steps of the start that may fail without ending it: the guest is still of use, and the log says what is missing.
import { logError } from '../lib/log.ts';

export function attempt(what: string, action: () => void): void {
  try {
    action();
  } catch (error) {
    logError(what, error);
  }
}
