// One-shot timers beyond the 24 days of setTimeout.
const MAX_DELAY_MS = 0x7fff_ffff;

/** Calls `callback` after `delayMs`; the returned function prevents it. */
export function startTimer(delayMs: number, callback: () => void): () => void {
  let handle: NodeJS.Timeout;
  const arm = (restMs: number): void => {
    const stepMs = Math.min(restMs, MAX_DELAY_MS);
    handle = setTimeout(() => (restMs > stepMs ? arm(restMs - stepMs) : callback()), stepMs);
  };
  arm(delayMs);
  return () => clearTimeout(handle);
}
