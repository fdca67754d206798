// What the kernel says of watched directories (inotify): read in batches, with both halves of a rename as one event.
import { addon, NOT_NOW } from '../../native/addon.ts';

export const IN = {
  modify: 0x2,
  attrib: 0x4,
  closeWrite: 0x8,
  movedFrom: 0x40,
  movedTo: 0x80,
  create: 0x100,
  delete: 0x200,
  deleteSelf: 0x400,
  moveSelf: 0x800,
  unmount: 0x2000,
  overflow: 0x4000,
  ignored: 0x8000,
  onlyDirectory: 0x1000000,
  excludeUnlinked: 0x4000000,
  isDirectory: 0x40000000,
} as const;

/** Bytes of an event before its name: watch, mask, cookie, length of the name. */
const HEADER_BYTES = 16;
const READ_BYTES = 65_536;
/** No more is read while so many events wait here; the kernel keeps the rest, up to its own limit. */
const MAX_WAITING = 1024;
/** How long the second half of a rename may come behind the first. */
const RENAME_MS = 20;

export type KernelEvent = {
  readonly number: number;
  readonly mask: number;
  /** A byte string; "" for an event of the directory itself. */
  readonly name: string;
  /** Of a rename within what is watched. */
  readonly to?: { readonly number: number; readonly name: string };
};

type Raw = Omit<KernelEvent, 'to'> & { readonly cookie: number; readonly readMs: number };

/** Shared: an event's name is copied out of it. */
const batch = Buffer.allocUnsafeSlow(READ_BYTES);

export class EventQueue {
  readonly #inotify: number;
  readonly #onRead: () => void;
  #waiting: (Raw | undefined)[] = [];
  #at = 0;

  /** `onRead` is called before any event of a batch is given. */
  constructor(inotify: number, onRead: () => void) {
    this.#inotify = inotify;
    this.#onRead = onRead;
  }

  /** The next event; `late` while the other half of a rename may still come. */
  next(): KernelEvent | 'none' | 'late' {
    for (;;) {
      if (this.#at >= this.#waiting.length && !this.#fill()) return 'none';
      const event = this.#waiting[this.#at];
      if (event === undefined) {
        this.#at += 1;
        continue;
      }
      if ((event.mask & IN.movedFrom) === 0) return this.#take(event);
      const to = this.#otherHalf(event);
      if (to !== undefined) return { ...this.#take(event), to };
      if (this.#fill()) continue;
      const isOld = performance.now() - event.readMs >= RENAME_MS;
      if (isOld || this.#waiting.length - this.#at >= MAX_WAITING) return this.#take(event);
      return 'late';
    }
  }

  #take({ number, mask, name }: Raw): KernelEvent {
    this.#at += 1;
    return { number, mask, name };
  }

  #otherHalf({ cookie }: Raw): { readonly number: number; readonly name: string } | undefined {
    for (let at = this.#at + 1; at < this.#waiting.length; at++) {
      const event = this.#waiting[at];
      if (event?.cookie !== cookie || (event.mask & IN.movedTo) === 0) continue;
      this.#waiting[at] = undefined;
      return event;
    }
    return undefined;
  }

  /** Reads from the kernel; false if there is nothing, or enough here. */
  #fill(): boolean {
    if (this.#at > 0) this.#waiting = this.#waiting.slice(this.#at);
    this.#at = 0;
    if (this.#waiting.length >= MAX_WAITING) return false;
    const bytes = addon.read(this.#inotify, batch, 0, READ_BYTES);
    if (bytes === NOT_NOW || bytes <= 0) return false;
    const readMs = performance.now();
    for (let at = 0; at < bytes; ) {
      const nameBytes = batch.readUInt32LE(at + 12);
      this.#waiting.push({
        number: batch.readInt32LE(at),
        mask: batch.readUInt32LE(at + 4),
        cookie: batch.readUInt32LE(at + 8),
        name: toName(at + HEADER_BYTES, nameBytes),
        readMs,
      });
      at += HEADER_BYTES + nameBytes;
    }
    this.#onRead();
    return true;
  }
}

function toName(at: number, bytes: number): string {
  const end = batch.indexOf(0, at);
  return batch.toString('latin1', at, end < 0 ? at + bytes : Math.min(end, at + bytes));
}
