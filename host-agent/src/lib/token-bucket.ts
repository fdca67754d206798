// A token bucket: a burst capacity and a refill rate per second.

export class TokenBucket {
  readonly #perS: number;
  readonly #burst: number;
  #tokens: number;
  #filledAt = performance.now();

  constructor(perS: number, burst: number) {
    this.#perS = perS;
    this.#burst = burst;
    this.#tokens = burst;
  }

  get isFull(): boolean {
    this.#fill();
    return this.#tokens === this.#burst;
  }

  /** Takes a token; false if there is none. */
  take(): boolean {
    this.#fill();
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  #fill(): void {
    const now = performance.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#filledAt) / 1000) * this.#perS);
    this.#filledAt = now;
  }
}
