// A timer to a point in time, however far away (setTimeout alone reaches 24 days).

const MAX_TIMER_MS = 2 ** 31 - 1;

export class Lifetime {
  #timer: NodeJS.Timeout | undefined;

  constructor(endMs: number, onEnd: () => void) {
    const wait = (): void => {
      const leftMs = Math.max(0, endMs - Date.now());
      this.#timer = setTimeout(leftMs > MAX_TIMER_MS ? wait : onEnd, Math.min(leftMs, MAX_TIMER_MS)).unref();
    };
    wait();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
