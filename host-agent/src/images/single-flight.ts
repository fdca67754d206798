// Work that several want at once is done once; it is given up when none of them wants it any more.
import type { Report } from './progress.ts';

type Flight<T> = {
  readonly result: Promise<T>;
  readonly cancel: AbortController;
  readonly listeners: Set<Report>;
  waiting: number;
};

export type Work<T> = (report: Report, signal: AbortSignal) => Promise<T>;

export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();
  /** All, also those that nobody can join any more. */
  readonly #running = new Set<Flight<T>>();

  /** Joins the work of that key, or begins it. `onEvent` hears what it reports from now on. Rejects with the signal's reason. */
  async run(
    key: string,
    work: Work<T>,
    { onEvent, signal }: { onEvent?: Report | undefined; signal?: AbortSignal | undefined },
  ): Promise<T> {
    signal?.throwIfAborted();
    const flight = this.#flights.get(key) ?? this.#begin(key, work);
    flight.waiting += 1;
    if (onEvent !== undefined) flight.listeners.add(onEvent);
    let onAbort: () => void = () => undefined;
    const left = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal?.reason);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
    try {
      return await Promise.race([flight.result, left]);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      if (onEvent !== undefined) flight.listeners.delete(onEvent);
      flight.waiting -= 1;
      if (flight.waiting === 0) {
        // Whoever comes now begins anew.
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
        flight.cancel.abort(signal?.reason ?? new Error('nobody wants it any more'));
      }
    }
  }

  /** Ends all of it, and waits for that. */
  async stop(reason: Error): Promise<void> {
    const flights = [...this.#running];
    for (const { cancel } of flights) cancel.abort(reason);
    await Promise.allSettled(flights.map(({ result }) => result));
  }

  #begin(key: string, work: Work<T>): Flight<T> {
    const cancel = new AbortController();
    const listeners = new Set<Report>();
    const tell: Report = (line, layer) => {
      for (const listener of listeners) listener(line, layer);
    };
    const report: Report = Object.assign(tell, { isHeard: () => listeners.size > 0 });
    const result = work(report, cancel.signal);
    const flight: Flight<T> = { result, cancel, listeners, waiting: 0 };
    this.#flights.set(key, flight);
    this.#running.add(flight);
    const forget = (): void => {
      this.#running.delete(flight);
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    result.then(forget, forget);
    return flight;
  }
}
