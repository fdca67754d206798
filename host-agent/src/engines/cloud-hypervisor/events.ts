// The VMM's event file. A hint only: the last events of a VMM that exits may be missing.
import { watch } from 'node:fs';
import { tailFile } from '../../lib/tail.ts';
import { openRegular } from '../../lib/untrusted-path.ts';

type VmmEvent = { readonly source: string; readonly event: string };

const READ_BYTES = 64 * 1024;
/** Maximum bytes read per update; if the VMM writes faster, older events are skipped. */
const MAX_BEHIND_BYTES = 256 * 1024;
/** Minimum time between two updates: rate-limits reading from a VMM that writes without end. */
const MIN_INTERVAL_MS = 100;
/** Poll interval, for file systems without change notifications. */
const POLL_MS = 500;

/** Parses consecutive JSON objects, each printed over several lines; a truncated last one is left out. */
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

/** The last events of a VMM that has exited; empty if there are none. */
export async function readEvents(path: string): Promise<VmmEvent[]> {
  return parseEvents(await tailFile(path, Number.POSITIVE_INFINITY, READ_BYTES));
}

/** Whether the guest reset itself. The VMM then tries to boot it again. */
export function hasReset(events: readonly VmmEvent[]): boolean {
  return has(events, 'vm', 'rebooting');
}

export function hasPowerOff(events: readonly VmmEvent[]): boolean {
  return has(events, 'vmm', 'shutdown');
}

/** Whether the VM was shut down. This event comes before its connections break; the VMM exits later. */
export function hasShutDown(events: readonly VmmEvent[]): boolean {
  return has(events, 'vm', 'shutdown') || has(events, 'vm', 'deleted');
}

/** Whether the guest's kernel reported a panic. */
export function hasPanicked(events: readonly VmmEvent[]): boolean {
  return has(events, 'guest', 'panic');
}

export function has(events: readonly VmmEvent[], source: string, event: string): boolean {
  return events.some((each) => each.source === source && each.event === event);
}

/** A guest can cause any number of device events: only these are retained. */
const END_EVENTS = [hasReset, hasPowerOff, hasShutDown, hasPanicked];

/** Follows the event file of a running VMM. Events that a failed restore attempt left are ignored. */
export class EventTail implements Disposable {
  readonly #path: string;
  #offset = 0;
  #partial = '';
  #endEvents: VmmEvent[] = [];
  #reading: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;
  #watching: Disposable | undefined;
  /** While this timer runs, changes are not reported. */
  #pause: NodeJS.Timeout | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Events so far that end a VM. */
  async read(): Promise<readonly VmmEvent[]> {
    // Concurrent callers share the next read.
    this.#next ??= this.#reading.then(() => {
      this.#next = undefined;
      this.#reading = this.#readNew().catch(() => undefined);
      return this.#reading;
    });
    await this.#next;
    return this.#endEvents;
  }

  /** Calls `onChange` when there may be new events, immediately or 100 ms after the last call, until disposed. */
  watch(onEachChange: () => void): void {
    this[Symbol.dispose]();
    let hasMore = false;
    const onChange = (): void => {
      hasMore = this.#pause !== undefined;
      if (hasMore) return;
      this.#pause = setTimeout(() => {
        this.#pause = undefined;
        if (hasMore) onChange();
      }, MIN_INTERVAL_MS).unref();
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
      this.#partial = '';
    }
    const buffer = Buffer.alloc(READ_BYTES);
    while (this.#offset < size) {
      const { bytesRead } = await file.read(buffer, 0, READ_BYTES, this.#offset);
      if (bytesRead === 0) return;
      this.#offset += bytesRead;
      const parts = `${this.#partial}${buffer.toString('latin1', 0, bytesRead)}`.split(/\n\s*\n/);
      this.#partial = parts.pop()?.slice(-READ_BYTES) ?? '';
      for (const part of parts) this.#retain(parseEvent(part));
    }
  }

  #retain(event: VmmEvent | undefined): void {
    if (event === undefined) return;
    if (event.source === 'vm' && event.event === 'restoring') this.#endEvents = [];
    if (this.#endEvents.length < END_EVENTS.length && END_EVENTS.some((isEnd) => isEnd([event])))
      this.#endEvents.push(event);
  }
}
