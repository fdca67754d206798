// Whether a guest's clock is right, on a host where an answer may take any time.

/** For exec. */
export const NOW = 'date +%s.%N';

/** Seconds by which the guest's time is outside of the question and its answer; 0: inside. `ask` runs NOW. */
export async function clockSkewS(ask: () => Promise<string>): Promise<number> {
  const before = Date.now() / 1000;
  const guest = Number(await ask());
  const after = Date.now() / 1000;
  return Math.max(0, before - guest, guest - after);
}
