// A link's direct write: native code writes one stream's data frames to a file as long as no other frame arrives.
import type { DirectWrite } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

/** Status values of runLinkWrite. */
export const LINK_WRITE = { nothingNow: 0, turnOver: 1, stopped: 2, hostLeft: 3, failed: 4 } as const;

/** The addon serves one link at a time. */
let running: LinkWrites | undefined;
const numbers = new Float64Array(4);

export class LinkWrites {
  readonly #fd: number;
  readonly #scratch: Buffer;
  #offered: { readonly stream: number; readonly directWrite: DirectWrite } | undefined;

  /** `scratch` is the link's read buffer. */
  constructor(fd: number, scratch: Buffer) {
    this.#fd = fd;
    this.#scratch = scratch;
  }

  /** Whether a direct write runs, or may start at the next frame boundary. */
  get isOffered(): boolean {
    return this.#offered !== undefined;
  }

  offer(stream: number, directWrite: DirectWrite): void {
    if (running === undefined) this.#offered = { stream, directWrite };
  }

  /**
   * Takes in the bytes that are ready, at most about `maxBytes`. To be called between two frames, and again until it
   * stops. `status` is the addon's status. `unread` was read but is not for the file; the buffer is borrowed. Throws
   * the errors of reading.
   */
  run(maxBytes: number): { readonly status: number; readonly takenBytes: number; readonly unread: Buffer } {
    const directWrite = this.#begin();
    if (directWrite === undefined) {
      this.stop();
      return { status: LINK_WRITE.stopped, takenBytes: 0, unread: this.#scratch.subarray(0, 0) };
    }
    const status = addon.runLinkWrite(maxBytes, numbers, this.#scratch);
    const [takenBytes = 0, frames = 0, unreadBytes = 0, errno = 0] = numbers;
    if (status === LINK_WRITE.stopped || status === LINK_WRITE.hostLeft) this.stop();
    if (takenBytes > 0 || frames > 0) directWrite.took(takenBytes, frames);
    if (status === LINK_WRITE.failed) directWrite.failed(errno);
    return { status, takenBytes, unread: this.#scratch.subarray(0, unreadBytes) };
  }

  stop(): void {
    if (running === this) {
      running = undefined;
      addon.stopLinkWrite();
    }
    this.#offered = undefined;
  }

  #begin(): DirectWrite | undefined {
    if (this.#offered === undefined) return undefined;
    const { stream, directWrite } = this.#offered;
    if (running === this) return directWrite;
    const targetBytes = running === undefined ? directWrite.wanted() : 0;
    if (targetBytes === 0) return undefined;
    addon.startLinkWrite(this.#fd, stream, directWrite.target, targetBytes);
    running = this;
    return directWrite;
  }
}
