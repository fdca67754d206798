// Calls of routes: path, key, time limit, repeats, and what became of them.
import type { CallOptions, ErrorCode } from '../contract.ts';
import {
  CertificateError,
  ConnectionError,
  SandboxdError,
  TimeoutError,
  toApiError,
  UnavailableError,
} from '../errors.ts';
import { type Calls, ROUTES, type RouteName } from '../gen/routes.ts';
import { readLines } from './lines.ts';
import type { Duplex, Transport, WireAnswer, WireRequest } from './transport.ts';

/** Waits before the first repeat, and twice as long before each next one. */
const FIRST_WAIT_MS = 200;
/** Longest wait that a daemon's Retry-After is obeyed for. */
const MAX_WAIT_MS = 10_000;
/** Statuses of a daemon or a proxy that may do it the next time. */
const PASSING: readonly number[] = [502, 503, 504];
/** Of a JSON answer: the largest one, an exec's with 16 MiB of each stream, has a third of it. */
const MAX_ANSWER_CHARS = 96 << 20;
const MAX_FAILURE_CHARS = 64 << 10;
/** Entries that a list is asked for at once. */
const PAGE_ITEMS = 500;
const MAX_ENTRIES = 1_000_000;
/** Of all pages of a list. */
const MAX_LIST_CHARS = 256 << 20;
/** How long the answer to what made something may be on its way after it was given up. */
const GRACE_MS = 500;

export type Call<N extends RouteName> = CallOptions & {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: Calls[N]['body'];
  /** In place of a JSON body. */
  readonly bytes?: WireRequest['body'];
  readonly accept?: string;
  /** Doing it twice is as good as doing it once, so it is repeated; what a GET is by default. */
  readonly isIdempotent?: boolean;
  /** Told how long a JSON answer is. */
  readonly onChars?: (count: number) => void;
};

type ListName = 'listSandboxes' | 'listSnapshots' | 'listImages';

export type RequestsOptions = {
  readonly transport: Transport;
  readonly apiKey: string | undefined;
  /** How often what can be repeated safely is, at most. */
  readonly retries: number;
  readonly timeoutMs: number | undefined;
};

export class Requests {
  readonly #options: RequestsOptions;

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  /** The JSON of the answer, undefined where it has none. ApiError, ConnectionError, TimeoutError. */
  async ask<N extends RouteName>(name: N, call: Call<N> = {}): Promise<Calls[N]['answer']> {
    return this.#within(name, call, (signal) => this.#ask(name, call, signal));
  }

  /** A list, page by page; a daemon that has no pages answers with all of it. */
  async list<N extends ListName, T>(
    name: N,
    call: Call<N>,
    toEntries: (answer: Calls[N]['answer']) => readonly T[],
  ): Promise<readonly T[]> {
    const entries: T[] = [];
    let chars = 0;
    const onChars = (count: number): void => {
      chars += count;
    };
    let cursor: string | undefined;
    do {
      const query = { ...call.query, limit: PAGE_ITEMS, cursor };
      const answer = await this.ask(name, { ...call, query, onChars });
      const page = toEntries(answer);
      for (const entry of page) entries.push(entry);
      // A page of nothing that leads on would do so for ever.
      cursor = page.length === 0 ? undefined : answer.next_cursor;
      if (cursor !== undefined && entries.length > MAX_ENTRIES)
        throw new SandboxdError(`${ROUTES[name].path} lists more than ${MAX_ENTRIES} entries`);
      if (cursor !== undefined && chars > MAX_LIST_CHARS)
        throw new SandboxdError(`${ROUTES[name].path} lists more than ${MAX_LIST_CHARS} characters`);
    } while (cursor !== undefined);
    return entries;
  }

  /**
   * As `ask`, of a request that makes something. The daemon rolls back what it has not answered when its client leaves; what was
   * answered in that moment would be nobody's, so it is waited for a little longer, and disposed of.
   */
  async makeAll<N extends RouteName, T extends AsyncDisposable>(
    name: N,
    call: Call<N>,
    toMade: (answer: Calls[N]['answer']) => T[],
  ): Promise<T[]> {
    return this.#within(name, call, async (signal) => {
      using late = delay(signal, GRACE_MS);
      const made = toMade(await this.#ask(name, call, late.signal));
      if (!signal.aborted) return made;
      await Promise.allSettled(made.map((one) => one[Symbol.asyncDispose]()));
      throw signal.reason;
    });
  }

  /** As `makeAll`, of one. */
  async make<N extends RouteName, T extends AsyncDisposable>(
    name: N,
    call: Call<N>,
    toMade: (answer: Calls[N]['answer']) => T,
  ): Promise<T> {
    const [made] = await this.makeAll(name, call, (answer) => [toMade(answer)]);
    return made as T;
  }

  #ask<N extends RouteName>(name: N, call: Call<N>, signal: AbortSignal): Promise<Calls[N]['answer']> {
    return this.#repeat(name, call, signal, async () => {
      const answer = await this.#send(name, { accept: 'application/json', ...call }, signal);
      const text = await readBounded(name, answer);
      call.onChars?.(text.length);
      return (text === '' ? undefined : parseAnswer(name, text)) as Calls[N]['answer'];
    });
  }

  /** The answer, whose bytes are still to come. A time limit is for its beginning. */
  async stream<N extends RouteName>(name: N, call: Call<N> = {}): Promise<WireAnswer> {
    return this.#within(name, call, (signal) =>
      this.#repeat(name, call, signal, () => this.#send(name, { accept: '*/*', ...call }, signal)),
    );
  }

  /** An answer of lines of JSON, each told as it comes; resolves with the request's id. The time limit is for all of them. */
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

  /** An interactive exec. */
  async open(call: Call<'exec'>): Promise<Duplex> {
    return this.#within('exec', call, async (signal) => {
      const { path, headers, body = '' } = this.#toWire('exec', call, signal);
      const wire = { method: 'POST', path, headers, body: String(body), signal };
      const opened = await this.#options.transport.open(wire);
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
    const { params = {}, query = {}, body, bytes, accept } = call;
    const search = new URLSearchParams(
      Object.entries(query).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]])),
    ).toString();
    const { apiKey } = this.#options;
    return {
      method,
      path:
        path.replace(/\{(\w+)\}/g, (_, key) => encodeURIComponent(params[key] ?? '')) +
        (search && `?${search}`),
      headers: {
        ...(accept !== undefined && { accept }),
        ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
        // A misspelt field is an error here, and would have no meaning there.
        ...(body !== undefined && { 'content-type': 'application/json', prefer: 'handling=strict' }),
        ...(bytes !== undefined && { 'content-type': 'application/octet-stream' }),
      },
      body: bytes ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal,
    };
  }

  /** Runs it with a signal of its own, which fires when the caller's does or when its time is over. */
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

  /** Repeats what is idempotent, and what the daemon cannot have seen. */
  async #repeat<T>(
    name: RouteName,
    { isIdempotent = ROUTES[name].method === 'GET' }: { readonly isIdempotent?: boolean },
    signal: AbortSignal,
    work: () => Promise<T>,
  ): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        const isHopeful = attempt < this.#options.retries && !signal.aborted;
        if (!isHopeful || !isRepeatable(error, isIdempotent)) throw withDoubt(error, ROUTES[name].method);
        await pause(toWaitMs(error, attempt), signal);
      }
    }
  }
}

/** Whether the same request may be sent once more. */
function isRepeatable(error: unknown, isIdempotent: boolean): boolean {
  if (error instanceof ConnectionError) return error.isUnsent || isIdempotent;
  return isIdempotent && PASSING.includes((error as { status?: number }).status ?? 0);
}

/** What changes something and was not answered has been done, or has not. */
function withDoubt(error: unknown, method: string): unknown {
  const isDoubtful = error instanceof ConnectionError && !error.isUnsent && method !== 'GET';
  if (!isDoubtful || error instanceof CertificateError) return error;
  const { message, requestId } = error;
  const said = `${message}; it may or may not have been carried out`;
  return new ConnectionError(said, { cause: error, requestId });
}

function toWaitMs(error: unknown, attempt: number): number {
  const asked = error instanceof UnavailableError ? error.retryAfterMs : undefined;
  return Math.min(MAX_WAIT_MS, asked ?? FIRST_WAIT_MS * 2 ** attempt);
}

/** Fires so much later, for the same reason. */
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

/** Whatever else listens at a port may answer as well. */
function parseAnswer(name: RouteName, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const { method, path } = ROUTES[name];
    const message = `the answer to ${method} ${path} is no JSON; is it a sandboxd that listens there?`;
    throw new SandboxdError(message, { cause });
  }
}

async function toFailure(answer: WireAnswer): Promise<SandboxdError> {
  // A page of a proxy may be long, or have no end: its beginning says enough.
  const text = await readText(answer, MAX_FAILURE_CHARS);
  let message = text.slice(0, 500) || `the daemon answered ${answer.status}`;
  let code: ErrorCode | undefined;
  try {
    const body = JSON.parse(text) as { readonly error: unknown; readonly code?: unknown };
    message = String(body.error);
    if (typeof body.code === 'string') code = body.code as ErrorCode;
  } catch {
    // A proxy's words, or none.
  }
  const error = toApiError(answer.status, message, answer.header('x-request-id'), code);
  const seconds = Number(answer.header('retry-after'));
  if (error instanceof UnavailableError && seconds > 0) error.retryAfterMs = seconds * 1000;
  return error;
}

/** Whatever listens at a port may answer without end. */
async function readBounded(name: RouteName, answer: WireAnswer): Promise<string> {
  const text = await readText(answer, MAX_ANSWER_CHARS + 1);
  if (text.length <= MAX_ANSWER_CHARS) return text;
  const { method, path } = ROUTES[name];
  const message = `the answer to ${method} ${path} has more than ${MAX_ANSWER_CHARS} characters; is it a sandboxd that listens there?`;
  throw new SandboxdError(message);
}

/** Its first `maxChars` characters; the rest is not waited for. */
export async function readText(
  { body }: Pick<WireAnswer, 'body'>,
  maxChars = Number.POSITIVE_INFINITY,
): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length >= maxChars) return text.slice(0, maxChars);
  }
  return text + decoder.decode();
}
