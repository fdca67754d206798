// One-shot timers beyond the limit of setTimeout, 24 days.
const MAX_DELAY_MS = 0x7fff_ffff;

type TimerOptions = {
  /** The timer does not keep the process alive. */
  readonly isUnref?: boolean;
};

/**
 * Calls `callback` after `delayMs`, or at once for a delay in the past, unless the returned function is called before.
 */
export function startTimer(
  delayMs: number,
  callback: () => void,
  { isUnref = false }: TimerOptions = {},
): () => void {
  let handle: NodeJS.Timeout;
  const arm = (restMs: number): void => {
    const stepMs = Math.min(restMs, MAX_DELAY_MS);
    handle = setTimeout(() => (restMs > stepMs ? arm(restMs - stepMs) : callback()), stepMs);
    if (isUnref) handle.unref();
  };
  arm(Math.max(0, delayMs));
  return () => clearTimeout(handle);
}
