// The stream of events of one host, as the gateway reads it: at the pace of its own reader, and not for ever when the
// host has become silent.
import type { ClientRequest, IncomingMessage } from 'node:http';
import { StringDecoder } from 'node:string_decoder';
import { toError } from '../../../lib/errors.ts';
import type { Host } from '../../catalogue.ts';
import { type HostAnswer, type HostConnections, toHostError } from '../host-connections.ts';
import { parseJson } from '../json.ts';

const OPEN_MS = 5000;
/** A host sends its position every 15 s. */
const SILENT_MS = 50_000;
const MAX_LINE_CHARS = 2 ** 20;
const MAX_REFUSAL_BYTES = 64 * 1024;

/** `data`: the event; absent: only the position has changed. */
export type HostMessage = { readonly id: string; readonly data: string | undefined };

/** The host answers, and not with events. */
export class HostRefusal extends Error {
  readonly refusal: HostAnswer;

  constructor(refusal: HostAnswer) {
    super(`it answers with status ${refusal.answer.statusCode}`);
    this.refusal = refusal;
  }

  get status(): number {
    return this.refusal.answer.statusCode ?? 502;
  }
}

export type OpenHostEvents = {
  /** With its query. */
  readonly path: string;
  readonly headers: readonly string[];
  /** Absent: from now on, or for one that does not follow, from the oldest. */
  readonly after: string | undefined;
  /** Older events are left out. */
  readonly sinceMs: number | undefined;
  readonly signal: AbortSignal;
};

export class HostEvents {
  readonly host: Host;
  /** Where it began. */
  readonly first: HostMessage;
  /** By the clock of the host. */
  readonly #notBeforeMs: number;
  readonly #messages: MessageReader;

  private constructor(host: Host, first: HostMessage, notBeforeMs: number, messages: MessageReader) {
    this.host = host;
    this.first = first;
    this.#notBeforeMs = notBeforeMs;
    this.#messages = messages;
  }

  /** HostRefusal; AppError upstream. */
  static async open(connections: HostConnections, host: Host, options: OpenHostEvents): Promise<HostEvents> {
    const { path, after, sinceMs, signal } = options;
    const cursor = after === undefined ? [] : ['Last-Event-ID', after];
    const headers = [...options.headers, 'Accept', 'text/event-stream', ...cursor];
    const outgoing = connections.open(host, { method: 'GET', path, headers });
    const end = (): void => void outgoing.destroy(toError(signal.reason));
    signal.addEventListener('abort', end, { once: true });
    outgoing.once('close', () => signal.removeEventListener('abort', end));
    const timer = setTimeout(() => outgoing.destroy(new Error('no answer in time')), OPEN_MS);
    try {
      if (signal.aborted) end();
      const answer = await answerOf(outgoing);
      if (answer.statusCode !== 200) throw new HostRefusal({ answer, body: await readRefusal(answer) });
      const messages = new MessageReader(outgoing, answer);
      const first = await messages.next();
      if (first === undefined) throw new Error('it ended its stream');
      return new HostEvents(host, first, toHostTime(sinceMs, answer.headers.date), messages);
    } catch (error) {
      outgoing.destroy();
      throw error instanceof HostRefusal ? error : toHostError(host, error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Undefined at the end. AppError upstream when it broke off, or the host is silent. */
  async next(): Promise<HostMessage | undefined> {
    try {
      const message = await this.#messages.next();
      return message !== undefined && timeOf(message.data) < this.#notBeforeMs
        ? { ...message, data: undefined }
        : message;
    } catch (error) {
      throw toHostError(this.host, error);
    }
  }

  close(): void {
    this.#messages.close();
  }
}

/** Of an event; for other data later than all events. */
export function timeOf(data: string | undefined): number {
  const event = data === undefined ? undefined : parseJson(data);
  const at =
    typeof event === 'object' && event !== null && 'at' in event ? Date.parse(String(event.at)) : NaN;
  return Number.isNaN(at) ? Number.POSITIVE_INFINITY : at;
}

/** A time of this clock by that of the host, up to a second too early, as a Date has whole seconds. */
function toHostTime(ms: number | undefined, date: string | undefined): number {
  if (ms === undefined) return Number.NEGATIVE_INFINITY;
  const aheadMs = Date.parse(date ?? '') - Date.now();
  return ms + (Number.isNaN(aheadMs) ? 0 : aheadMs);
}

function answerOf(outgoing: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.once('response', resolve).on('error', reject);
    outgoing.once('upgrade', (_, socket) => {
      socket.destroy();
      reject(new Error('it answered with 101'));
    });
    outgoing.end();
  });
}

async function readRefusal(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of answer) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_REFUSAL_BYTES) throw new Error('its answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Server-sent events. Reads no further than it is asked to. */
class MessageReader {
  readonly #outgoing: ClientRequest;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #decoder = new StringDecoder('utf8');
  #lines: string[] = [];
  #partial = '';

  constructor(outgoing: ClientRequest, answer: IncomingMessage) {
    this.#outgoing = outgoing;
    // Between two reads.
    answer.on('error', () => undefined);
    this.#chunks = answer[Symbol.asyncIterator]();
  }

  async next(): Promise<HostMessage | undefined> {
    let id: string | undefined;
    let data: string | undefined;
    for (;;) {
      const line = this.#lines.shift();
      if (line === undefined) {
        if (!(await this.#read())) return undefined;
      } else if (line === '') {
        if (id !== undefined) return { id, data };
        data = undefined;
      } else if (line.startsWith('id: ')) id = line.slice(4);
      else if (line.startsWith('data: ')) data = line.slice(6);
    }
  }

  close(): void {
    this.#outgoing.destroy();
  }

  async #read(): Promise<boolean> {
    const timer = setTimeout(() => this.#outgoing.destroy(new Error('it has become silent')), SILENT_MS);
    try {
      const { done, value } = await this.#chunks.next();
      if (done === true) return false;
      const lines = `${this.#partial}${this.#decoder.write(value)}`.split('\n');
      this.#partial = lines.pop() ?? '';
      if (this.#partial.length > MAX_LINE_CHARS) throw new Error('a line of its events is too long');
      this.#lines = lines;
      return true;
    } finally {
      clearTimeout(timer);
    }
  }
}
