// A link's intake: what one stream's data frames carry goes into a file without JavaScript, as long as nothing else comes.
import type { StreamIntake } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

/** What runIntake returns. */
export const INTAKE = { nothingNow: 0, turnOver: 1, stopped: 2, hostLeft: 3, failed: 4 } as const;

/** The addon takes in for one link at a time. */
let running: LinkIntake | undefined;
const numbers = new Float64Array(5);
const NOTHING = Buffer.alloc(0);

export class LinkIntake {
  readonly #fd: number;
  readonly #scratch: Buffer;
  readonly #canReply: boolean;
  #offered: StreamIntake | undefined;

  /** `scratch` is where the link reads to. `canReply`: a short frame is written whole or not at all. */
  constructor(fd: number, scratch: Buffer, canReply: boolean) {
    this.#fd = fd;
    this.#scratch = scratch;
    this.#canReply = canReply;
  }

  get isRunning(): boolean {
    return running === this;
  }

  /** Whether it runs, or could at the next beginning of a frame. */
  get isOffered(): boolean {
    return this.#offered !== undefined;
  }

  offer(intake: StreamIntake): void {
    if (running === undefined) this.#offered = intake;
  }

  /**
   * To be called between two frames, and until it stops: takes in what is there, at most about `mostBytes`. `status` as of
   * the addon; `unread` was read and is not for the intake, lent. Throws what reading throws.
   */
  run(
    mostBytes: number,
    isBlocked: boolean,
  ): { readonly status: number; readonly tookBytes: number; readonly unread: Buffer } {
    const intake = this.#offered;
    if (intake === undefined || !this.#begin(intake, isBlocked)) {
      this.stop();
      return { status: INTAKE.stopped, tookBytes: 0, unread: NOTHING };
    }
    numbers[0] = intake.creditDue();
    const status = addon.runIntake(mostBytes, numbers, this.#scratch);
    const [tookBytes = 0, frames = 0, unreadBytes = 0, errno = 0, returned = 0] = numbers;
    if (status === INTAKE.stopped || status === INTAKE.hostLeft) this.stop();
    if (tookBytes > 0 || frames > 0) intake.took(tookBytes, frames, returned);
    if (status === INTAKE.failed) intake.failed(errno);
    return { status, tookBytes, unread: this.#scratch.subarray(0, unreadBytes) };
  }

  stop(): void {
    if (running === this) {
      running = undefined;
      addon.stopIntake();
    }
    this.#offered = undefined;
  }

  #begin({ stream, target, wanted, creditWorth }: StreamIntake, isBlocked: boolean): boolean {
    if (running === this) return true;
    const wantedBytes = running === undefined ? wanted() : 0;
    if (wantedBytes === 0) return false;
    addon.startIntake(
      this.#fd,
      stream,
      target,
      wantedBytes,
      creditWorth,
      this.#canReply ? 1 : 0,
      isBlocked ? 1 : 0,
    );
    running = this;
    return true;
  }
}
