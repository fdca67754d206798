// A link's intake: what one stream's data frames carry goes into a file without JavaScript, as long as nothing else comes.
import type { DirectWrite } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

/** What runIntake returns. */
export const INTAKE = { nothingNow: 0, turnOver: 1, stopped: 2, hostLeft: 3, failed: 4 } as const;

/** The addon takes in for one link at a time. */
let running: LinkIntake | undefined;
const numbers = new Float64Array(4);

export class LinkIntake {
  readonly #fd: number;
  readonly #scratch: Buffer;
  #offered: { readonly stream: number; readonly intake: DirectWrite } | undefined;

  /** `scratch` is where the link reads to. */
  constructor(fd: number, scratch: Buffer) {
    this.#fd = fd;
    this.#scratch = scratch;
  }

  /** Whether it runs, or could at the next beginning of a frame. */
  get isOffered(): boolean {
    return this.#offered !== undefined;
  }

  offer(stream: number, directWrite: DirectWrite): void {
    if (running === undefined) this.#offered = { stream, intake: directWrite };
  }

  /**
   * To be called between two frames, and until it stops: takes in what is there, at most about `mostBytes`. `status` as of
   * the addon; `unread` was read and is not for the intake, lent. Throws what reading throws.
   */
  run(mostBytes: number): { readonly status: number; readonly tookBytes: number; readonly unread: Buffer } {
    const directWrite = this.#begin();
    if (directWrite === undefined) {
      this.stop();
      return { status: INTAKE.stopped, tookBytes: 0, unread: this.#scratch.subarray(0, 0) };
    }
    const status = addon.runIntake(mostBytes, numbers, this.#scratch);
    const [tookBytes = 0, frames = 0, unreadBytes = 0, errno = 0] = numbers;
    if (status === INTAKE.stopped || status === INTAKE.hostLeft) this.stop();
    if (tookBytes > 0 || frames > 0) directWrite.took(tookBytes, frames);
    if (status === INTAKE.failed) directWrite.failed(errno);
    return { status, tookBytes, unread: this.#scratch.subarray(0, unreadBytes) };
  }

  stop(): void {
    if (running === this) {
      running = undefined;
      addon.stopIntake();
    }
    this.#offered = undefined;
  }

  #begin(): DirectWrite | undefined {
    if (this.#offered === undefined) return undefined;
    const { stream, intake: directWrite } = this.#offered;
    if (running === this) return directWrite;
    const wantedBytes = running === undefined ? directWrite.wanted() : 0;
    if (wantedBytes === 0) return undefined;
    addon.startIntake(this.#fd, stream, directWrite.target, wantedBytes);
    running = this;
    return directWrite;
  }
}
