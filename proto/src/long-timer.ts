// One-shot timers beyond the 24 days of setTimeout.
const MAX_DELAY_MS = 0x7fff_ffff;

export type TimerOptions = {
  /** The process may end before it does. */
  readonly isUnref?: boolean;
};

/** Calls `callback` after `delayMs`, at once where that is over; the returned function prevents it. */
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
