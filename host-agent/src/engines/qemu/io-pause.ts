// Handles an I/O pause: if the host's disk rejects a guest's write, the VMM pauses the guest and loses nothing. The
// guest is resumed as soon as the disk has space again.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';

/** QEMU's state of a guest that it paused because of a failed write. */
export const IO_ERROR = 'io-error';
/** A guest that runs for this long after a resume counts as recovered. */
const RETRY_MS = 1000;

type IoPauseOptions = {
  readonly readStatus: () => Promise<string>;
  /** Resumes the guest; the failed write is retried. */
  readonly resume: () => Promise<void>;
  /** Nothing more must be done: the VM has ended, or another daemon has it. */
  readonly isOver: () => boolean;
  /** Called when the guest resumes; its clock did not advance. */
  readonly onResumed: () => void;
  /** Called when the pause begins. */
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

  /** Why the guest is paused; undefined if it is not. */
  get reason(): string | undefined {
    return this.#reason;
  }

  get isSaving(): boolean {
    return this.#saves > 0;
  }

  /** Runs `work`, which saves the guest; the guest must not be resumed meanwhile. */
  async duringSave<T>(work: () => Promise<T>): Promise<T> {
    this.#saves += 1;
    try {
      return await work();
    } finally {
      this.#saves -= 1;
    }
  }

  /** The VMM has paused the guest; `cause` is the host's error. */
  begin(cause: string): void {
    if (this.#reason !== undefined) return;
    const why = `the host's disk does not take the guest's writes (${cause.toLowerCase()})`;
    this.#reason = `${why}; it is paused until it does`;
    this.#options.log.warn({ reason: this.#reason }, "guest paused: the host's disk rejects its writes");
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
        log.debug({ err: toError(error) }, 'cannot query or resume a paused guest');
      }
    }
    this.#reason = undefined;
    log.info(hasResumed ? 'a paused guest runs again' : 'a paused guest was resumed');
    onResumed();
  }
}
