// Shares one task among concurrent callers with the same key; cancels it when the last caller leaves.
import type { Report } from './fetch/download-progress.ts';

type Flight<T> = {
  readonly result: Promise<T>;
  readonly cancel: AbortController;
  readonly listeners: Set<Report>;
  waiting: number;
};

export type Work<T> = (report: Report, signal: AbortSignal) => Promise<T>;

export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();
  /** All running flights, including cancelled ones that accept no more callers. */
  readonly #running = new Set<Flight<T>>();

  /**
   * Joins the running task of the key, or starts it. `onEvent` receives its reports from now on. Rejects with the
   * signal's reason.
   */
  async run(
    key: string,
    work: Work<T>,
    { onEvent, signal }: { onEvent?: Report | undefined; signal?: AbortSignal | undefined },
  ): Promise<T> {
    signal?.throwIfAborted();
    const flight = this.#flights.get(key) ?? this.#start(key, work);
    flight.waiting += 1;
    if (onEvent !== undefined) flight.listeners.add(onEvent);
    let onAbort: () => void = () => undefined;
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal?.reason);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
    try {
      return await Promise.race([flight.result, aborted]);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      if (onEvent !== undefined) flight.listeners.delete(onEvent);
      flight.waiting -= 1;
      if (flight.waiting === 0) {
        // A new caller starts a new flight instead of joining the cancelled one.
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
        flight.cancel.abort(signal?.reason ?? new Error('all callers have aborted'));
      }
    }
  }

  /** Cancels all flights and waits until they have ended. */
  async stop(reason: Error): Promise<void> {
    const flights = [...this.#running];
    for (const { cancel } of flights) cancel.abort(reason);
    await Promise.allSettled(flights.map(({ result }) => result));
  }

  #start(key: string, work: Work<T>): Flight<T> {
    const cancel = new AbortController();
    const listeners = new Set<Report>();
    const publish: Report = (line, layer) => {
      for (const listener of listeners) listener(line, layer);
    };
    const report: Report = Object.assign(publish, { hasListeners: () => listeners.size > 0 });
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
