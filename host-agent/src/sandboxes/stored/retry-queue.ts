// Work on single snapshots that is repeated until it is done: a few at a time, each with exponential backoff.
import { startTimer } from '@sandboxd/proto';
import PQueue from 'p-queue';
import { backOffMs } from '../../lib/back-off.ts';

const BACK_OFF = { firstMs: 2000, mostMs: 300_000, jitter: 0.25 };

export type RetryQueueOptions = {
  readonly concurrency: number;
  /** Rejects to be called again. */
  readonly work: (id: string) => Promise<void>;
  readonly onFailure: (id: string, error: unknown, retryMs: number) => void;
};

type Job = { failures: number; isRunning: boolean; isAgain: boolean; cancel: () => void };

export class RetryQueue {
  readonly #options: RetryQueueOptions;
  readonly #queue: PQueue;
  readonly #jobs = new Map<string, Job>();
  #isStopped = false;

  constructor(options: RetryQueueOptions) {
    this.#options = options;
    this.#queue = new PQueue({ concurrency: options.concurrency });
  }

  /** Those that are not done. */
  get size(): number {
    return this.#jobs.size;
  }

  isRunning(id: string): boolean {
    return this.#jobs.get(id)?.isRunning === true;
  }

  /** Does it soon; once more if it is being done now. */
  add(id: string): void {
    if (this.#isStopped) return;
    const job = this.#jobs.get(id);
    if (job === undefined) {
      const added = { failures: 0, isRunning: false, isAgain: false, cancel: () => undefined };
      this.#jobs.set(id, added);
      this.#enqueue(id, added);
    } else if (job.isRunning) job.isAgain = true;
  }

  /** Does not wait for one that runs. */
  forget(id: string): void {
    this.#jobs.get(id)?.cancel();
    this.#jobs.delete(id);
  }

  /** Resolves when nothing runs any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const { cancel } of this.#jobs.values()) cancel();
    this.#queue.clear();
    await this.#queue.onIdle();
  }

  #enqueue(id: string, job: Job): void {
    void this.#queue.add(() => this.#run(id, job));
  }

  async #run(id: string, job: Job): Promise<void> {
    if (this.#isStopped || this.#jobs.get(id) !== job) return;
    job.isRunning = true;
    try {
      await this.#options.work(id);
      job.failures = 0;
      if (!job.isAgain && this.#jobs.get(id) === job) this.#jobs.delete(id);
    } catch (error) {
      job.failures += 1;
      const retryMs = backOffMs(job.failures, BACK_OFF);
      if (this.#isStopped || this.#jobs.get(id) !== job) return;
      this.#options.onFailure(id, error, retryMs);
      job.cancel = startTimer(retryMs, () => this.#enqueue(id, job), { isUnref: true });
      return;
    } finally {
      job.isRunning = false;
    }
    if (job.isAgain && this.#jobs.get(id) === job && !this.#isStopped) {
      job.isAgain = false;
      this.#enqueue(id, job);
    }
  }
}
