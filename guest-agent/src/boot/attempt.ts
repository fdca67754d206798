// Runs an optional boot step: a failure is logged, and boot continues, because the guest is usable without the step.
import { logError } from '../lib/log.ts';

export function attempt(what: string, action: () => void): void {
  try {
    action();
  } catch (error) {
    logError(what, error);
  }
}
