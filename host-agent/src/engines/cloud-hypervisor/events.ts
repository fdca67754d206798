// The VMM's account of what happened. A hint only: the last events of a VMM that ends may be missing.
import { watch } from 'node:fs';
import { tailFile } from '../../lib/tail.ts';
import { openRegular } from '../../lib/untrusted-path.ts';

export type VmmEvent = { readonly source: string; readonly event: string };

const READ_BYTES = 64 * 1024;
/** Of what came since the last time, at most this much is read: what a VMM writes faster is left out. */
const MAX_BEHIND_BYTES = 256 * 1024;
/** From one change that is told of to the next: a VMM that writes without end is not read without end. */
const LOOK_MS = 100;
/** How often the file is looked at where the kernel does not say that it changed. */
const POLL_MS = 500;

/** Objects behind each other, printed over several lines; one that is cut short at the end is left out. */
export function parseEvents(text: string): VmmEvent[] {
  return text.split(/\n\s*\n/).flatMap((part) => parseEvent(part) ?? []);
}

function parseEvent(text: string): VmmEvent | undefined {
  try {
    const { source, event } = JSON.parse(text) as Record<string, unknown>;
    return { source: String(source), event: String(event) };
  } catch {
    return undefined;
  }
}

/** The last ones of a VMM that is gone; empty when there are none. */
export async function readEvents(path: string): Promise<VmmEvent[]> {
  return parseEvents(await tailFile(path, Number.POSITIVE_INFINITY, READ_BYTES));
}

/** Whether the guest reset itself; the VMM then tries to boot it again. */
export function hasReset(events: readonly VmmEvent[]): boolean {
  return has(events, 'vm', 'rebooting');
}

export function hasPowerOff(events: readonly VmmEvent[]): boolean {
  return has(events, 'vmm', 'shutdown');
}

/** Whether the VM was shut down, which comes before its connections break; the VMM ends a while later. */
export function hasShutDown(events: readonly VmmEvent[]): boolean {
  return has(events, 'vm', 'shutdown') || has(events, 'vm', 'deleted');
}

/** Whether the guest's kernel said that it panicked. */
export function hasPanicked(events: readonly VmmEvent[]): boolean {
  return has(events, 'guest', 'panic');
}

function has(events: readonly VmmEvent[], source: string, event: string): boolean {
  return events.some((each) => each.source === source && each.event === event);
}

/** A guest can cause any number of events of its devices: only these are kept. */
const ENDS = [hasReset, hasPowerOff, hasShutDown, hasPanicked];

/** Follows the account of a VMM that runs. What a try at a restore that failed left in it does not count. */
export class EventTail implements Disposable {
  readonly #path: string;
  #offset = 0;
  #rest = '';
  #kept: VmmEvent[] = [];
  #reading: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;
  #watching: Disposable | undefined;
  /** While it lasts no change is told of. */
  #pause: NodeJS.Timeout | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Those so far of which a VM ends. */
  async read(): Promise<readonly VmmEvent[]> {
    // Who asks while others wait for the next reading waits for that one, too.
    this.#next ??= this.#reading.then(() => {
      this.#next = undefined;
      this.#reading = this.#readNew().catch(() => undefined);
      return this.#reading;
    });
    await this.#next;
    return this.#kept;
  }

  /** Calls `onChange` when there may be new ones, at once or 100 ms after the last time, until it is disposed. */
  watch(onEachChange: () => void): void {
    this[Symbol.dispose]();
    let hasMore = false;
    const onChange = (): void => {
      hasMore = this.#pause !== undefined;
      if (hasMore) return;
      this.#pause = setTimeout(() => {
        this.#pause = undefined;
        if (hasMore) onChange();
      }, LOOK_MS).unref();
      onEachChange();
    };
    const timer = (): void => {
      const polling = setInterval(onChange, POLL_MS).unref();
      this.#watching = { [Symbol.dispose]: () => clearInterval(polling) };
    };
    try {
      const watcher = watch(this.#path, { persistent: false }, onChange);
      watcher.on('error', timer);
      this.#watching = { [Symbol.dispose]: () => watcher.close() };
    } catch {
      timer();
    }
  }

  [Symbol.dispose](): void {
    this.#watching?.[Symbol.dispose]();
    this.#watching = undefined;
    clearTimeout(this.#pause);
    this.#pause = undefined;
  }

  async #readNew(): Promise<void> {
    await using file = await openRegular(this.#path);
    const { size } = await file.stat();
    if (size - this.#offset > MAX_BEHIND_BYTES) {
      this.#offset = size - MAX_BEHIND_BYTES;
      this.#rest = '';
    }
    const buffer = Buffer.alloc(READ_BYTES);
    while (this.#offset < size) {
      const { bytesRead } = await file.read(buffer, 0, READ_BYTES, this.#offset);
      if (bytesRead === 0) return;
      this.#offset += bytesRead;
      const parts = `${this.#rest}${buffer.toString('latin1', 0, bytesRead)}`.split(/\n\s*\n/);
      this.#rest = parts.pop()?.slice(-READ_BYTES) ?? '';
      for (const part of parts) this.#keep(parseEvent(part));
    }
  }

  #keep(event: VmmEvent | undefined): void {
    if (event === undefined) return;
    if (event.source === 'vm' && event.event === 'restoring') this.#kept = [];
    if (this.#kept.length < ENDS.length && ENDS.some((isEnd) => isEnd([event]))) this.#kept.push(event);
  }
}
