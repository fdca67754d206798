// A guest whose writes the host's disk does not take is stopped by the VMM, with nothing lost. It goes on as soon as there
// is room again.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';

/** The VMM's word for a guest that it stopped because of a failed write. */
export const IO_ERROR = 'io-error';
/** A guest that runs for so long after it was let go on has its writes taken. */
const RETRY_MS = 1000;

export type IoPauseOptions = {
  readonly readStatus: () => Promise<string>;
  /** Lets the guest go on; what failed is tried again. */
  readonly resume: () => Promise<void>;
  /** Nothing more is to be done: it ended, or is another daemon's. */
  readonly isOver: () => boolean;
  /** Called when the guest goes on, whose clock stood still. */
  readonly onResumed: () => void;
  /** Called when it begins to stand still. */
  readonly onBegin?: (cause: string) => void;
  readonly log: Logger;
  readonly retryMs?: number;
};

export class IoPause {
  readonly #options: IoPauseOptions;
  #reason: string | undefined;
  #saves = 0;

  constructor(options: IoPauseOptions) {
    this.#options = options;
  }

  /** Why the guest stands still, undefined when it does not. */
  get reason(): string | undefined {
    return this.#reason;
  }

  get isSaving(): boolean {
    return this.#saves > 0;
  }

  /** `work` saves the guest, which must not be let go on meanwhile. */
  async duringSave<T>(work: () => Promise<T>): Promise<T> {
    this.#saves += 1;
    try {
      return await work();
    } finally {
      this.#saves -= 1;
    }
  }

  /** The VMM stopped the guest; `cause` is the host's word for it. */
  begin(cause: string): void {
    if (this.#reason !== undefined) return;
    const why = `the host's disk does not take the guest's writes (${cause.toLowerCase()})`;
    this.#reason = `${why}; it stands still until it does`;
    this.#options.log.warn({ reason: this.#reason }, 'a guest stands still');
    this.#options.onBegin?.(why);
    void this.#end();
  }

  async #end(): Promise<void> {
    const { readStatus, resume, isOver, onResumed, log, retryMs = RETRY_MS } = this.#options;
    let hasResumed = false;
    for (;;) {
      await sleep(retryMs, undefined, { ref: false });
      if (isOver()) return;
      if (this.#saves > 0) continue;
      try {
        if ((await readStatus()) === IO_ERROR) {
          await resume();
          hasResumed = true;
        } else break;
      } catch (error) {
        log.debug({ err: toError(error) }, 'a guest that stands still cannot be asked');
      }
    }
    this.#reason = undefined;
    log.info(hasResumed ? 'a guest that stood still goes on' : 'a guest that stood still was let go on');
    onResumed();
  }
}
