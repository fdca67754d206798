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

  /** Takes a token, or so many; false if there are not as many. */
  take(count = 1): boolean {
    this.#fill();
    if (this.#tokens < count) return false;
    this.#tokens -= count;
    return true;
  }

  #fill(): void {
    const now = performance.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#filledAt) / 1000) * this.#perS);
    this.#filledAt = now;
  }
}
