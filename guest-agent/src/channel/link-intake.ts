// A link's direct write: native code writes one stream's data frames to a file as long as no other frame arrives.
import type { DirectWrite } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

/** Status values of runIntake. */
export const INTAKE = { nothingNow: 0, turnOver: 1, stopped: 2, hostLeft: 3, failed: 4 } as const;

/** The addon serves one link at a time. */
let running: LinkIntake | undefined;
const numbers = new Float64Array(4);

export class LinkIntake {
  readonly #fd: number;
  readonly #scratch: Buffer;
  #offered: { readonly stream: number; readonly intake: DirectWrite } | undefined;

  /** `scratch` is the link's read buffer. */
  constructor(fd: number, scratch: Buffer) {
    this.#fd = fd;
    this.#scratch = scratch;
  }

  /** Whether the intake runs, or may start at the next frame boundary. */
  get isOffered(): boolean {
    return this.#offered !== undefined;
  }

  offer(stream: number, directWrite: DirectWrite): void {
    if (running === undefined) this.#offered = { stream, intake: directWrite };
  }

  /**
   * Takes in the bytes that are ready, at most about `maxBytes`. To be called between two frames, and again until it
   * stops. `status` is the addon's status. `unread` was read but is not for the intake; the buffer is borrowed. Throws
   * the errors of reading.
   */
  run(maxBytes: number): { readonly status: number; readonly takenBytes: number; readonly unread: Buffer } {
    const directWrite = this.#begin();
    if (directWrite === undefined) {
      this.stop();
      return { status: INTAKE.stopped, takenBytes: 0, unread: this.#scratch.subarray(0, 0) };
    }
    const status = addon.runIntake(maxBytes, numbers, this.#scratch);
    const [takenBytes = 0, frames = 0, unreadBytes = 0, errno = 0] = numbers;
    if (status === INTAKE.stopped || status === INTAKE.hostLeft) this.stop();
    if (takenBytes > 0 || frames > 0) directWrite.took(takenBytes, frames);
    if (status === INTAKE.failed) directWrite.failed(errno);
    return { status, takenBytes, unread: this.#scratch.subarray(0, unreadBytes) };
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
    const targetBytes = running === undefined ? directWrite.wanted() : 0;
    if (targetBytes === 0) return undefined;
    addon.startIntake(this.#fd, stream, directWrite.target, targetBytes);
    running = this;
    return directWrite;
  }
}
