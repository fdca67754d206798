// Calls of API routes: path, key, time limit, retries and errors.
import type { Duplex as NodeDuplex } from 'node:stream';
import type { CallOptions, KeyedOptions } from '../contract.ts';
import {
  CertificateError,
  ConnectionError,
  SandboxdError,
  TimeoutError,
  UnavailableError,
} from '../errors.ts';
import { type Calls, ROUTES, type RouteName } from '../gen/routes.ts';
import { parseAnswer, readBounded, toFailure } from './answers.ts';
import { readLines } from './lines.ts';
import type { Duplex, Transport, WireAnswer, WireRequest } from './transport.ts';

/** First delay of the exponential backoff. */
const FIRST_WAIT_MS = 200;
/** Longest Retry-After that is honoured. */
const MAX_WAIT_MS = 10_000;
/** Statuses of a daemon or proxy that a retry may resolve. */
const TRANSIENT: readonly number[] = [502, 503, 504];
/** Page size of lists. */
const PAGE_ITEMS = 500;
const MAX_ENTRIES = 1_000_000;
/** Limit for all pages of one list. */
const MAX_LIST_CHARS = 256 << 20;
/** After an abort, how long a create waits for an answer that may be on its way. */
const GRACE_MS = 500;

export type Call<N extends RouteName> = KeyedOptions & {
  readonly params?: Readonly<Record<string, string>>;
  /** A parameter with an array is repeated. */
  readonly query?: Readonly<Record<string, string | number | readonly string[] | undefined>>;
  readonly body?: Calls[N]['body'];
  /** Replaces a JSON body. */
  readonly bytes?: WireRequest['body'];
  readonly accept?: string;
  /** Further headers, such as conditions. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The request may safely be repeated; default: true for GET, and for a request with an idempotency key. */
  readonly isIdempotent?: boolean;
  /** Called with the length of a JSON answer. */
  readonly onChars?: (count: number) => void;
};

type ListName = 'listSandboxes' | 'listSnapshots' | 'listImages' | 'listSecrets' | 'showSnapshotTree';

export type RequestsOptions = {
  readonly transport: Transport;
  readonly apiKey: string | undefined;
  /** Maximum number of retries of a repeatable request. */
  readonly retries: number;
  readonly timeoutMs: number | undefined;
};

export class Requests {
  readonly #options: RequestsOptions;

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  /** Resolves with the parsed answer; undefined if it is empty. ApiError, ConnectionError, TimeoutError. */
  async call<N extends RouteName>(name: N, call: Call<N> = {}): Promise<Calls[N]['answer']> {
    return this.#within(name, call, (signal) => this.#call(name, call, signal));
  }

  /** Fetches a list page by page, up to `most` entries; a daemon without pagination returns all of it. */
  async list<N extends ListName, T>(
    name: N,
    call: Call<N>,
    toEntries: (answer: Calls[N]['answer']) => readonly T[],
    most = Number.POSITIVE_INFINITY,
  ): Promise<readonly T[]> {
    const entries: T[] = [];
    let chars = 0;
    const onChars = (count: number): void => {
      chars += count;
    };
    let cursor: string | undefined;
    do {
      const query = { ...call.query, limit: Math.min(PAGE_ITEMS, most - entries.length), cursor };
      const answer = await this.call(name, { ...call, query, onChars });
      const page = toEntries(answer);
      for (const entry of page) entries.push(entry);
      // An empty page with a cursor would loop forever.
      cursor = page.length === 0 || entries.length >= most ? undefined : answer.next_cursor;
      if (cursor !== undefined && entries.length > MAX_ENTRIES)
        throw new SandboxdError(`${ROUTES[name].path} lists more than ${MAX_ENTRIES} entries`);
      if (cursor !== undefined && chars > MAX_LIST_CHARS)
        throw new SandboxdError(`${ROUTES[name].path} lists more than ${MAX_LIST_CHARS} characters`);
    } while (cursor !== undefined);
    return entries.slice(0, most);
  }

  /**
   * Like `call`, for a request that creates resources. When the client disconnects, the daemon rolls back an unanswered
   * create. Resources of an answer that was already on its way would leak, so the call waits GRACE_MS for it and
   * deletes them.
   */
  async createAll<N extends RouteName, T extends AsyncDisposable>(
    name: N,
    call: Call<N>,
    toResource: (answer: Calls[N]['answer']) => T[],
  ): Promise<T[]> {
    return this.#within(name, call, async (signal) => {
      using late = delay(signal, GRACE_MS);
      const made = toResource(await this.#call(name, call, late.signal));
      if (!signal.aborted) return made;
      // With a key it may be the answer of an earlier call, whose resources are in use.
      if (call.idempotencyKey === undefined)
        await Promise.allSettled(made.map((one) => one[Symbol.asyncDispose]()));
      throw signal.reason;
    });
  }

  /** Like `createAll`, for one resource. */
  async create<N extends RouteName, T extends AsyncDisposable>(
    name: N,
    call: Call<N>,
    toResource: (answer: Calls[N]['answer']) => T,
  ): Promise<T> {
    const [made] = await this.createAll(name, call, (answer) => [toResource(answer)]);
    return made as T;
  }

  #call<N extends RouteName>(name: N, call: Call<N>, signal: AbortSignal): Promise<Calls[N]['answer']> {
    return this.#repeat(name, call, signal, async () => {
      const answer = await this.#send(name, { accept: 'application/json', ...call }, signal);
      const text = await readBounded(name, answer);
      call.onChars?.(text.length);
      return (text === '' ? undefined : parseAnswer(name, text)) as Calls[N]['answer'];
    });
  }

  /** Resolves with an answer whose body is streamed. The time limit covers only its beginning. */
  async stream<N extends RouteName>(name: N, call: Call<N> = {}): Promise<WireAnswer> {
    return this.#within(name, call, (signal) =>
      this.#repeat(name, call, signal, () => this.#send(name, { accept: '*/*', ...call }, signal)),
    );
  }

  /**
   * Reads an answer of JSON lines and calls `onLine` for each; resolves with the request id. The time limit covers the
   * whole answer.
   */
  async lines<N extends RouteName>(
    name: N,
    call: Call<N>,
    onLine: (line: unknown) => void,
  ): Promise<string | undefined> {
    return this.#within(name, call, async (signal) => {
      const { body, header } = await this.#repeat(name, call, signal, () =>
        this.#send(name, { accept: 'application/x-ndjson', ...call }, signal),
      );
      for await (const line of readLines(body)) onLine(JSON.parse(line));
      return header('x-request-id');
    });
  }

  /** Opens an interactive exec, or attaches to a command. */
  async open<N extends 'exec' | 'attachCommand'>(name: N, call: Call<N>): Promise<Duplex> {
    return this.#within(name, call, async (signal) => {
      const { path, headers, body = '' } = this.#toWire(name, call, signal);
      const wire = { method: 'POST', path, headers, body: String(body), signal };
      const opened = await this.#options.transport.open(wire);
      if (!('status' in opened)) return opened;
      throw await toFailure(opened);
    });
  }

  /** Opens a connection that carries raw bytes. */
  async tunnel(name: 'connectPort', call: Call<'connectPort'>): Promise<NodeDuplex> {
    return this.#within(name, call, async (signal) => {
      const { transport } = this.#options;
      if (transport.tunnel === undefined)
        throw new SandboxdError('browsers have no raw connections; use the WebSocket of the same path');
      const opened = await transport.tunnel(this.#toWire(name, call, signal));
      if (!('status' in opened)) return opened;
      throw await toFailure(opened);
    });
  }

  async #send<N extends RouteName>(name: N, call: Call<N>, signal: AbortSignal): Promise<WireAnswer> {
    const answer = await this.#options.transport.send(this.#toWire(name, call, signal));
    if (answer.status >= 200 && answer.status < 300) return answer;
    throw await toFailure(answer);
  }

  #toWire<N extends RouteName>(name: N, call: Call<N>, signal: AbortSignal): WireRequest {
    const { method, path } = ROUTES[name];
    const { params = {}, query = {}, body, bytes, accept, headers, idempotencyKey } = call;
    const search = new URLSearchParams(
      Object.entries(query).flatMap(([key, value = []]) =>
        (Array.isArray(value) ? value : [value]).map((each) => [key, String(each)]),
      ),
    ).toString();
    const { apiKey } = this.#options;
    return {
      method,
      path: path.replace(/\{(\w+)\}/g, (_, key) => toSegment(params[key] ?? '')) + (search && `?${search}`),
      headers: {
        ...(accept !== undefined && { accept }),
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
        // Strict handling makes the daemon reject a misspelt field instead of ignoring it.
        ...(body !== undefined && { 'content-type': 'application/json', prefer: 'handling=strict' }),
        ...(bytes !== undefined && { 'content-type': 'application/octet-stream' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
        ...headers,
      },
      body: bytes ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal,
    };
  }

  /** Runs `work` with a signal that aborts with the caller's signal or after the time limit. */
  async #within<T>(
    name: RouteName,
    { signal, timeoutMs = this.#options.timeoutMs }: CallOptions,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    if (timeoutMs === undefined) return work(signal ?? new AbortController().signal);
    const limit = new AbortController();
    const { method, path, summary } = ROUTES[name];
    const waited = `${method} ${path} (${summary.charAt(0).toLowerCase()}${summary.slice(1)})`;
    const timer = setTimeout(
      () => limit.abort(new TimeoutError(`no answer to ${waited} within ${timeoutMs} ms`)),
      timeoutMs,
    );
    try {
      return await work(signal ? AbortSignal.any([signal, limit.signal]) : limit.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Retries idempotent requests, and requests that the daemon cannot have received. */
  async #repeat<T>(
    name: RouteName,
    call: Call<RouteName>,
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> {
    const { isIdempotent = ROUTES[name].method === 'GET' || isRepeatedByKey(call) } = call;
    for (let attempt = 0; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        const mayRetry = attempt < this.#options.retries && !signal.aborted;
        if (!mayRetry || !isRepeatable(error, isIdempotent))
          throw withUncertainty(error, ROUTES[name].method);
        await pause(toWaitMs(error, attempt), signal);
      }
    }
  }
}

/** A segment of dots would make another path, and another route, of it. */
function toSegment(value: string): string {
  if (value === '.' || value === '..')
    throw new SandboxdError(`${JSON.stringify(value)} is not an id or a name`);
  return encodeURIComponent(value);
}

/** A stream cannot be sent again. */
function isRepeatedByKey({ idempotencyKey, bytes }: Call<RouteName>): boolean {
  return idempotencyKey !== undefined && (bytes === undefined || bytes instanceof Uint8Array);
}

/** Whether the request may be sent again. */
function isRepeatable(error: unknown, isIdempotent: boolean): boolean {
  if (error instanceof ConnectionError) return error.isUnsent || isIdempotent;
  return isIdempotent && TRANSIENT.includes((error as { status?: number }).status ?? 0);
}

/** Adds to the error of a modifying request that it may have been carried out. */
function withUncertainty(error: unknown, method: string): unknown {
  const isUncertain = error instanceof ConnectionError && !error.isUnsent && method !== 'GET';
  if (!isUncertain || error instanceof CertificateError) return error;
  const { message, requestId } = error;
  const text = `${message}; it may or may not have been carried out`;
  return new ConnectionError(text, { cause: error, requestId });
}

function toWaitMs(error: unknown, attempt: number): number {
  const requestedMs = error instanceof UnavailableError ? error.retryAfterMs : undefined;
  return Math.min(MAX_WAIT_MS, requestedMs ?? FIRST_WAIT_MS * 2 ** attempt);
}

/** Returns a signal that aborts `ms` later, with the same reason. */
function delay(signal: AbortSignal, ms: number): { readonly signal: AbortSignal } & Disposable {
  const late = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onAbort = (): void => {
    timer = setTimeout(() => late.abort(signal.reason), ms);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  return {
    signal: late.signal,
    [Symbol.dispose]: () => {
      signal.removeEventListener('abort', onAbort);
      clearTimeout(timer);
    },
  };
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
