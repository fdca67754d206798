// The stream of one client: messages of all hosts in turn, each with the position behind it. A client that reads slowly
// makes the hosts wait, and holds nothing here.
import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import { parseJson } from '../json.ts';
import { type FleetPosition, newOwnId } from './position.ts';

const LINES = 'application/x-ndjson';
const MESSAGES = 'text/event-stream';
/** As hosts do. */
const RETRY_MS = 1000;
const KEEPALIVE_MS = 15_000;
/** Names the hosts that did not answer when the stream began. */
const UNREACHABLE = 'Sandboxd-Unreachable-Hosts';

const hostEvent = z.looseObject({ id: z.string(), at: z.string() });

export type EventOutputOptions = {
  readonly response: ServerResponse;
  readonly position: FleetPosition;
  /** JSON lines instead of server-sent events. */
  readonly areLines: boolean;
  /** Kinds that the client asked for; absent: all. */
  readonly kinds: ReadonlySet<string> | undefined;
};

export class EventOutput {
  readonly #options: EventOutputOptions;
  readonly #ended = new AbortController();
  #turn: Promise<void> = Promise.resolve();
  #keepalive: NodeJS.Timeout | undefined;

  constructor(options: EventOutputOptions) {
    this.#options = options;
    options.response.once('close', () => this.#stop());
    if (options.response.destroyed) this.#stop();
  }

  /** Aborts when the client left, or the stream has ended. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  begin(missing: readonly string[], isHead: boolean): void {
    const { response, areLines, position } = this.#options;
    if (response.headersSent || response.destroyed) return;
    response.writeHead(200, {
      'content-type': areLines ? LINES : MESSAGES,
      'cache-control': 'no-store',
      ...(missing.length > 0 && { [UNREACHABLE]: missing.join(', ') }),
    });
    if (isHead) {
      this.end();
      return;
    }
    response.flushHeaders();
    if (!areLines) response.write(`retry: ${RETRY_MS}\nid: ${position.toToken()}\n\n`);
    this.#keepalive = setInterval(() => this.#beat(), KEEPALIVE_MS).unref();
  }

  /** Moves the position, and sends the event if there is one. Resolves when the client can take more. */
  async deliver(host: string, id: string, data: string | undefined): Promise<void> {
    await this.#write(() => {
      const { position } = this.#options;
      position.advance(host, id);
      const { data: event } = hostEvent.safeParse(data === undefined ? undefined : parseJson(data));
      return event && this.#format({ ...event, id: position.toToken(event.id), host });
    });
  }

  /** What the gateway itself has seen of a host. */
  async report(kind: 'host-unreachable' | 'host-reachable', host: string, reason?: string): Promise<void> {
    const { position, kinds, areLines } = this.#options;
    await this.#write(() => {
      const id = position.toToken(newOwnId());
      const at = new Date().toISOString();
      if (kinds?.has(kind) !== false)
        return this.#format({ id, at, kind, host, ...(reason !== undefined && { reason }) });
      return areLines ? undefined : `: ${kind} ${host}\n\n`;
    });
  }

  end(): void {
    this.#stop();
    this.#options.response.end();
  }

  /** Without an answer, if none has begun. */
  abort(): void {
    this.#stop();
  }

  #format(event: { readonly id: string; readonly [field: string]: unknown }): string {
    const text = JSON.stringify(event);
    return this.#options.areLines ? `${text}\n` : `id: ${event.id}\ndata: ${text}\n\n`;
  }

  #beat(): void {
    const { response, areLines, position } = this.#options;
    if (response.writableNeedDrain || this.signal.aborted) return;
    response.write(areLines ? '\n' : `id: ${position.toToken()}\n\n`);
  }

  /** One at a time, so that each waits for the client. */
  #write(make: () => string | undefined): Promise<void> {
    const { response } = this.#options;
    const turn = this.#turn.then(async () => {
      if (this.signal.aborted) return;
      const text = make();
      if (text === undefined || response.write(text)) return;
      await new Promise<void>((resolve) => {
        response.once('drain', resolve);
        this.signal.addEventListener('abort', () => resolve(), { once: true });
      });
    });
    this.#turn = turn;
    return turn;
  }

  #stop(): void {
    clearInterval(this.#keepalive);
    this.#ended.abort();
  }
}
