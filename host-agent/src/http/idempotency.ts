// Requests with an Idempotency-Key: the first one with a key is carried out, also if its client disconnects; others
// with that key wait for its answer, or get the recorded one. Only successes are recorded, because what failed made
// nothing: its retry is a new request.
import { createHash } from 'node:crypto';
import {
  IDEMPOTENCY_KEY,
  MAX_IDEMPOTENCY_KEY_CHARS,
  MAX_KEYED_REQUESTS,
  MAX_KEYED_REQUESTS_OF_EACH,
  REPLAYED,
  type Route,
  show,
} from '@sandboxd/api';
import type { ByteSource } from '../guest/files.ts';
import type { Answer, Answers, Question } from '../idempotency/index.ts';
import { ownerOf, sharerOf } from '../keys/index.ts';
import { ConcurrencyLimit } from '../lib/concurrency-limit.ts';
import { AppError, toError } from '../lib/errors.ts';
import type { CommitHook } from '../sandboxes/interface.ts';
import { type HttpContext, headerOf, type KeyedRequest } from './context.ts';
import { readBody } from './input/body-source.ts';
import type { Input } from './input/request-input.ts';

/** Printable ASCII without space, `"` and `\`. Two such headers become one with a space. */
const KEY = /^[!#-[\]-~]+$/;

const LINES = 'application/x-ndjson';

type Running = { readonly fingerprint: string; readonly answer: Promise<Answer> };

export type AnswerOptions = {
  readonly bodyIdleMs: number | undefined;
  /** It will be refused if it is new: others with its key do not wait for that. */
  readonly makesNothing: boolean;
};

export class Idempotency {
  readonly #records: Answers;
  readonly #digestSecrets: (text: string) => string;
  readonly #running = new Map<string, Running>();
  readonly #limit = new ConcurrencyLimit({
    what: 'running requests with an Idempotency-Key',
    max: MAX_KEYED_REQUESTS,
    maxPerClient: MAX_KEYED_REQUESTS_OF_EACH,
  });

  /** `digestSecrets`: keyed, of what has values of secrets. */
  constructor(records: Answers, digestSecrets: (text: string) => string) {
    this.#records = records;
    this.#digestSecrets = digestSecrets;
  }

  /**
   * Calls `carryOut` unless an earlier request with the key succeeded or is running. AppError invalid_argument for an
   * invalid key, idempotency_mismatch for another request with it, and the error of the request that is running.
   */
  async answer(
    c: HttpContext,
    route: Route,
    input: Input<Route>,
    { bodyIdleMs, makesNothing }: AnswerOptions,
    carryOut: () => Promise<Response>,
  ): Promise<Response> {
    const key = readKey(headerOf(c, IDEMPOTENCY_KEY.toLowerCase()));
    if (key === undefined) return carryOut();
    const question = ask(c, key, route, input, this.#digestSecrets);
    const known = this.#records.find(question.id) ?? this.#running.get(question.id);
    if (known === undefined && makesNothing) return carryOut();
    if (known === undefined) return this.#carryOut(c, question, input.warnings, carryOut);
    if (known.fingerprint !== question.fingerprint) throw mismatch(key);
    const content = route.body?.kind === 'bytes' ? await digestBody(c, bodyIdleMs) : undefined;
    const answer = 'text' in known ? known : await known.answer;
    if (content !== undefined && answer.content !== undefined && content !== answer.content)
      throw mismatch(key);
    c.get('audit').replayed = true;
    c.header(REPLAYED, 'true');
    return respond(c, route, answer);
  }

  async #carryOut(
    c: HttpContext,
    question: Question,
    warnings: readonly string[],
    carryOut: () => Promise<Response>,
  ): Promise<Response> {
    const slot = this.#limit.acquire(question.sharer === '' ? undefined : question.sharer);
    const request = new FirstRequest(this.#records, question, warnings);
    const { id, fingerprint } = question;
    this.#running.set(id, { fingerprint, answer: request.answer });
    const forget = (): void => {
      this.#running.delete(id);
      slot[Symbol.dispose]();
    };
    request.answer.then(forget, forget);
    c.set('keyed', request);
    try {
      await this.#records.remove(id);
      const response = await carryOut();
      const answer = await request.finish(response);
      // What a sandbox is like may have changed since its commit, and retries get the recorded answer.
      return answer === undefined ? response : c.body(answer.text, answer.status as 201, JSON_TYPE);
    } catch (error) {
      request.failed(error);
      throw error;
    }
  }
}

const JSON_TYPE = { 'Content-Type': 'application/json' };

/** A retry may accept lines though the first request did not. */
function respond(c: HttpContext, { answers }: Route, { status, text }: Answer): Response {
  const hasLines = answers.some(({ content }) => content !== undefined && LINES in content);
  if (hasLines && (c.req.header('accept') ?? '').includes(LINES))
    return c.body(`{"image":${text}}\n`, 200, { 'Content-Type': LINES });
  return c.body(text, status as 201, JSON_TYPE);
}

class FirstRequest implements KeyedRequest {
  readonly #records: Answers;
  readonly #question: Question;
  readonly #warnings: readonly string[];
  readonly #done = Promise.withResolvers<Answer>();
  #answer: Answer | undefined;
  #isTracked = false;
  #content: string | undefined;

  constructor(records: Answers, question: Question, warnings: readonly string[]) {
    this.#records = records;
    this.#question = question;
    this.#warnings = warnings;
    // It may have no other reader.
    this.answer.catch(() => undefined);
  }

  /** Rejects with the error of the request. */
  get answer(): Promise<Answer> {
    return this.#done.promise;
  }

  commitHook<T>(toBody: (made: T) => object): CommitHook<T> {
    return {
      persist: (made) => {
        this.#answer = this.#toAnswer(toBody(made));
        this.#records.put(this.#question, this.#answer);
      },
      retract: async () => {
        this.#answer = undefined;
        await this.#records.remove(this.#question.id, false);
      },
    };
  }

  async track<T>(work: Promise<T>, toBody: (made: T) => object): Promise<void> {
    this.#isTracked = true;
    try {
      const answer = this.#toAnswer(toBody(await work));
      await this.#records.record(this.#question, answer);
      this.#done.resolve(answer);
    } catch (error) {
      this.failed(error);
      throw error;
    }
    await this.#records.settle(this.#question);
  }

  observe(read: ByteSource): ByteSource {
    const hash = createHash('sha256');
    return async () => {
      const bytes = await read();
      if (bytes === undefined) this.#content ??= hash.digest('base64url');
      else hash.update(bytes);
      return bytes;
    };
  }

  failed(error: unknown): void {
    this.#done.reject(toError(error));
  }

  /** Resolves with the recorded answer; undefined for one that is tracked. */
  async finish(response: Response): Promise<Answer | undefined> {
    if (this.#isTracked) return undefined;
    if (this.#answer === undefined) {
      // Nothing was made, such as for a name that exists.
      this.#answer = { status: response.status, text: await response.clone().text() };
      await this.#records.record(this.#question, this.#answer);
    }
    this.#done.resolve(this.#answer);
    await this.#records.settle(this.#question);
    return this.#answer;
  }

  #toAnswer(body: object): Answer {
    const warnings = this.#warnings.length > 0 ? { warnings: this.#warnings } : {};
    return { status: 201, text: JSON.stringify({ ...body, ...warnings }), content: this.#content };
  }
}

/** The text of the header, or the string in it (RFC 8941). Undefined without one. AppError invalid_argument. */
function readKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const key = /^"(.*)"$/s.exec(header)?.[1] ?? header;
  if (key.length <= MAX_IDEMPOTENCY_KEY_CHARS && KEY.test(key)) return key;
  const message =
    `${IDEMPOTENCY_KEY} must be one key of 1 to ${MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters without ` +
    `space, " and \\, such as a UUID, got ${show(header.slice(0, MAX_IDEMPOTENCY_KEY_CHARS))}`;
  throw new AppError('invalid_argument', message);
}

/** A key belongs to the API key and tenant of the client, so another client never gets its answers. */
function ask(
  c: HttpContext,
  key: string,
  route: Route,
  { json }: Input<Route>,
  digestSecrets: (text: string) => string,
): Question {
  const owner = ownerOf(c.get('principal'));
  const { pathname, searchParams } = new URL(c.req.url);
  searchParams.sort();
  // Not the validated body: a later version of the daemon may have more fields with defaults.
  const request = [route.method, pathname, [...searchParams], toCanonical(json ?? {})];
  return {
    id: digest([owner?.tenant ?? null, owner?.key ?? null, key]),
    sharer: sharerOf(owner) ?? '',
    fingerprint: hasSecrets(json) ? digestSecrets(JSON.stringify(request)) : digest(request),
  };
}

function digest(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url');
}

/** A plain digest of a short value could be searched for. */
function hasSecrets(json: unknown): boolean {
  return typeof json === 'object' && json !== null && 'secrets' in json;
}

/** The order of fields and white space make no difference. */
function toCanonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toCanonical);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  // Pairs, because an object would order numeric names itself.
  return { fields: fields.map(([name, each]) => [name, toCanonical(each)]) };
}

async function digestBody(c: HttpContext, bodyIdleMs: number | undefined): Promise<string> {
  const hash = createHash('sha256');
  const { read } = readBody(c, bodyIdleMs);
  for (let bytes = await read(); bytes !== undefined; bytes = await read()) hash.update(bytes);
  return hash.digest('base64url');
}

function mismatch(key: string): AppError {
  const message =
    `${IDEMPOTENCY_KEY} ${show(key)} was used for a different request within the last day; ` +
    'send the same request again, or take another key';
  return new AppError('idempotency_mismatch', message);
}
