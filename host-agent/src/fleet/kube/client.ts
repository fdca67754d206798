// A client of the REST interface of Kubernetes: JSON over Node's own HTTP, with limits of time and size.
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import type { KubeAccess } from './kubeconfig.ts';

/** Of an answer that is not a watch. */
const MAX_ANSWER_BYTES = 64 * 2 ** 20;
const MAX_SOCKETS = 64;
const DEFAULT_TIMEOUT_MS = 10_000;
const UNAUTHORIZED = 401;
/** How a connection ends that the server has closed. */
const STALE = ['ECONNRESET', 'EPIPE'];

export type PatchType = 'merge' | 'strategic';

export type KubeRequest = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: object;
  readonly patch?: PatchType;
  readonly timeoutMs?: number;
  /** Of the answer. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal | undefined;
};

/** An answer of the API server that is not a success. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  readonly status: number;
  /** Such as AlreadyExists. */
  readonly reason: string;

  constructor(status: number, reason: string, message: string) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

/** The answer to a request is larger than its limit. */
export class AnswerTooLarge extends AppError {
  constructor(maxBytes: number) {
    super('upstream', `an answer of the API server of the fleet is over ${maxBytes} bytes`);
  }
}

/** Whether the API server refused with that status. Its absence, and an answer that never came, are not refusals. */
export function isRefusal(error: unknown, ...statuses: readonly number[]): error is KubeError {
  return error instanceof KubeError && statuses.includes(error.status);
}

/** Of a change with the uid of the object: one of that name was made since, whose uid is another. */
export function isOtherObject(error: unknown): boolean {
  return isRefusal(error, 422) && error.message.includes('metadata.uid');
}

/** Of a change or a delete with the uid of the object: there is none of that name, another one, or it has changed. */
export function isGone(error: unknown): boolean {
  return isRefusal(error, 404, 409) || isOtherObject(error);
}

/** Throws all others. */
export function ignoreGone(error: unknown): void {
  if (!isGone(error)) throw error;
}

/** In PEM. */
export type KeyPair = { readonly cert: string; readonly key: string };

/** A client certificate that is replaced while the client is used. */
export interface ClientIdentity {
  /** AppError upstream while there is none. */
  current(): KeyPair;
  /** The API server accepts it, or does not. */
  checked(pair: KeyPair, isAccepted: boolean): void;
}

export class KubeClient {
  readonly #access: KubeAccess;
  readonly #identity: ClientIdentity | undefined;
  #pair: KeyPair | undefined;
  #agent: HttpAgent;

  /** `identity`: instead of the credentials of `access`. */
  constructor(access: KubeAccess, identity?: ClientIdentity) {
    const { cert, key } = access;
    this.#access = access;
    this.#identity = identity;
    this.#agent = this.#makeAgent(
      identity === undefined && cert !== undefined && key !== undefined ? { cert, key } : undefined,
    );
  }

  #makeAgent(pair: KeyPair | undefined): HttpAgent {
    const options = { keepAlive: true, maxSockets: MAX_SOCKETS };
    const { ca } = this.#access;
    return this.#isTls
      ? new HttpsAgent({ ...options, ...(ca && { ca }), ...pair, minVersion: 'TLSv1.2' })
      : new HttpAgent(options);
  }

  /** Requests that run go on with the certificate that they have. */
  #useIdentity(): KeyPair | undefined {
    const pair = this.#identity?.current();
    if (pair === this.#pair) return pair;
    const former = this.#agent;
    former.maxFreeSockets = 0;
    for (const socket of Object.values(former.freeSockets).flat()) socket?.destroy();
    this.#agent = this.#makeAgent(pair);
    this.#pair = pair;
    return pair;
  }

  get #isTls(): boolean {
    return this.#access.server.protocol === 'https:';
  }

  /** The JSON of the answer. KubeError when it is refused; AppError upstream when there is no answer in time. */
  async request({
    timeoutMs = DEFAULT_TIMEOUT_MS,
    maxBytes = MAX_ANSWER_BYTES,
    signal,
    ...request
  }: KubeRequest): Promise<unknown> {
    const limit = AbortSignal.timeout(timeoutMs);
    const stop = signal === undefined ? limit : AbortSignal.any([signal, limit]);
    const pair = this.#useIdentity();
    const answer = await this.#open(request, stop);
    const text = await readAll(answer, maxBytes).catch((cause: unknown) => {
      throw cause instanceof AnswerTooLarge ? cause : noAnswer(cause, stop);
    });
    const value = parseJson(text);
    const { statusCode = 0 } = answer;
    if (pair !== undefined) this.#identity?.checked(pair, statusCode !== UNAUTHORIZED);
    if (statusCode >= 200 && statusCode < 300) return value;
    throw toKubeError(statusCode, value);
  }

  /** The open answer of a watch, which ends when the server or `signal` ends it. Rejects as `request` does. */
  async stream(
    request: Omit<KubeRequest, 'signal' | 'maxBytes'>,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    this.#useIdentity();
    const answer = await this.#open(request, signal, request.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    if (answer.statusCode === 200) return answer;
    throw toKubeError(answer.statusCode ?? 0, parseJson(await readAll(answer, MAX_ANSWER_BYTES)));
  }

  close(): void {
    this.#agent.destroy();
  }

  #open(
    { method, path, query = {}, body, patch }: KubeRequest,
    signal: AbortSignal,
    headTimeoutMs?: number,
  ): Promise<IncomingMessage> {
    const url = new URL(this.#access.server);
    url.pathname = `${url.pathname.replace(/\/$/, '')}${path}`;
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, value);
    const text = body === undefined ? undefined : JSON.stringify(body);
    const token = this.#identity === undefined ? this.#access.token?.() : undefined;
    const type =
      patch === undefined
        ? 'application/json'
        : `application/${patch === 'merge' ? '' : 'strategic-'}merge-patch+json`;
    const headers = {
      accept: 'application/json',
      'user-agent': 'sandboxd',
      ...(token && { authorization: `Bearer ${token}` }),
      ...(text !== undefined && { 'content-type': type, 'content-length': Buffer.byteLength(text) }),
    };
    const send = this.#isTls ? requestHttps : requestHttp;
    const attempt = (): Promise<IncomingMessage> =>
      new Promise((resolve, reject) => {
        const outgoing = send(url, { method, headers, agent: this.#agent, signal });
        const timer =
          headTimeoutMs && setTimeout(() => outgoing.destroy(new Error('no answer in time')), headTimeoutMs);
        outgoing.once('response', (answer) => {
          clearTimeout(timer || undefined);
          resolve(answer);
        });
        outgoing.on('error', (cause) => {
          clearTimeout(timer || undefined);
          // The server ended an idle connection just then; a new one is no such. If it did take the request, it
          // refuses a second create.
          const isStale = outgoing.reusedSocket && STALE.includes(errnoOf(cause) ?? '');
          if (isStale && !signal.aborted) resolve(attempt());
          else reject(noAnswer(cause, signal));
        });
        outgoing.end(text);
      });
    return attempt();
  }
}

function noAnswer(cause: unknown, signal: AbortSignal): AppError {
  const reason = signal.aborted ? 'no answer in time' : toError(cause).message;
  return new AppError('upstream', `the API server of the fleet cannot be reached: ${reason}`, { cause });
}

async function readAll(answer: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of answer) {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw new AnswerTooLarge(maxBytes);
  }
  return Buffer.concat(chunks).toString();
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function toKubeError(status: number, body: unknown): KubeError {
  const field = (name: string): string => {
    const value: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, name) : undefined;
    return typeof value === 'string' ? value.slice(0, 500) : '';
  };
  return new KubeError(status, field('reason'), field('message') || `the API server answered ${status}`);
}
