// What happened, for one reader at its own pace: read from the journal when there is room, so that a slow one holds nothing.
import { setImmediate } from 'node:timers/promises';
import type { Entry, Journal } from '../../events/index.ts';
import { type Chunk, type PullStream, toChunk } from '../../lib/byte-queue.ts';
import { type StoredEvent, toEventBody } from '../../sandboxes/lifecycle-events.ts';

export type EventStreamOptions = {
  readonly journal: Journal<StoredEvent>;
  /** The entry behind which it begins. */
  readonly from: number;
  readonly isFollowing: boolean;
  /** Lines of JSON, not server-sent events. */
  readonly areLines: boolean;
  readonly isWanted: (event: StoredEvent) => boolean;
  readonly signals: readonly (AbortSignal | undefined)[];
  readonly onEnd: () => void;
};

/** A client that lost its connection tries again after so long. */
const RETRY_MS = 1000;
/** What a reader that is far behind gets at once, which is all that waits for it here. */
const PIECE_BYTES = 64 * 1024;

export class EventStream implements PullStream {
  readonly #options: EventStreamOptions;
  readonly #over = new AbortController();
  readonly #unlisten: () => void;
  #seq: number;
  #hasBegun = false;
  #isPoked = false;
  #wake: () => void = () => undefined;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#seq = options.from;
    this.#unlisten = options.journal.onMore(() => this.#wake());
    for (const signal of options.signals) {
      if (signal?.aborted) this.cancel();
      signal?.addEventListener('abort', () => this.cancel(), { once: true, signal: this.#over.signal });
    }
  }

  cancel(): void {
    this.#unlisten();
    this.#over.abort();
    this.#wake();
    this.#options.onEnd();
  }

  /** Sends where the reader is, which it then need not read again. */
  keepalive(): void {
    this.#isPoked = true;
    this.#wake();
  }

  async next(): Promise<Chunk | undefined> {
    const { journal, isFollowing, isWanted, areLines } = this.#options;
    if (!this.#hasBegun && !areLines) {
      this.#hasBegun = true;
      return toChunk(`retry: ${RETRY_MS}\n${this.#position}`);
    }
    for (;;) {
      if (this.#over.signal.aborted) return undefined;
      if (!journal.isRecent(this.#seq)) {
        await diskTurn();
        if (this.#over.signal.aborted) return undefined;
      }
      // What is not kept any more this reader has missed: it comes again, and learns that.
      if (this.#seq < journal.prunedTo) return this.#end();
      const entries = journal.read(this.#seq);
      const texts: Buffer[] = [];
      let bytes = 0;
      for (const entry of entries) {
        if (bytes >= PIECE_BYTES) break;
        this.#seq = entry.seq;
        if (!isWanted(entry.event)) continue;
        const text = areLines ? toLine(journal, entry) : toMessage(journal, entry);
        texts.push(text);
        bytes += text.length;
      }
      const [first] = texts;
      if (first !== undefined)
        return { bytes: texts.length === 1 ? first : Buffer.concat(texts), release: () => undefined };
      if (entries.length > 0) continue;
      if (!isFollowing) return this.#end();
      else if (this.#isPoked) {
        this.#isPoked = false;
        return toChunk(areLines ? '\n' : this.#position);
      } else await this.#more();
    }
  }

  /** An id without data moves the reader's Last-Event-ID and is no event. */
  get #position(): string {
    return `id: ${this.#options.journal.toId(this.#seq)}\n\n`;
  }

  #end(): undefined {
    this.cancel();
    return undefined;
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = () => undefined;
        resolve();
      };
    });
  }
}

let lastTurn: Promise<unknown> = Promise.resolve();

/** One reader at a time reads a batch of old events, and then the daemon does what else there is. */
function diskTurn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => setImmediate());
  return lastTurn;
}

function toMessage(journal: Journal<StoredEvent>, entry: Entry<StoredEvent>): Buffer {
  entry.text ??= Buffer.from(`id: ${journal.toId(entry.seq)}\ndata: ${toJson(journal, entry)}\n\n`);
  return entry.text;
}

function toLine(journal: Journal<StoredEvent>, entry: Entry<StoredEvent>): Buffer {
  return Buffer.from(`${toJson(journal, entry)}\n`);
}

function toJson(journal: Journal<StoredEvent>, { seq, event }: Entry<StoredEvent>): string {
  return JSON.stringify(toEventBody(journal.toId(seq), event));
}
