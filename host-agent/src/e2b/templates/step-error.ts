/** A step failed: the fault of what it does. */
export class StepError extends Error {
  override readonly name = 'StepError';
}
