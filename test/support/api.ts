// A client of the REST interface.
import {
  EXEC_FRAME,
  ExecFrameDecoder,
  execResult,
  ROUTES,
  type Route,
  type RouteName,
  type Routes,
} from '@sandboxd/api';
import type { z } from 'zod';
import { type AnswerOf, withCheckedAnswer } from './answers.ts';

export type SandboxJson = AnswerOf<'getSandbox'>;
export type ExecResultJson = z.output<typeof execResult>;

/** Arguments of a route's call; `params` are the parameters of its path. */
type CallOf<R extends Route> = {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number>>;
  readonly body?: R extends { body: { schema: infer S extends z.ZodType } } ? z.input<S> : never;
  readonly signal?: AbortSignal;
};

export type ExecOutput = {
  readonly stdout: string;
  readonly stderr: string;
  readonly result: ExecResultJson;
};

/** The error for a status outside 2xx. */
export class ApiError extends Error {
  readonly status: number;
  /** What the daemon has logged about it; in the report of a failed test, as tap shows the fields of an error. */
  readonly details?: string;

  constructor(status: number, message: string, details = '') {
    super(`${status}: ${message}`);
    this.status = status;
    if (details !== '') this.details = details;
  }
}

export class Api {
  readonly url: string;
  readonly #explain: () => string;

  /** `explain` gives what the daemon has logged about internal errors. */
  constructor(url: string, explain: () => string = () => '') {
    this.url = url;
    this.#explain = explain;
  }

  /** The response, whatever its status. Rejects when its JSON does not match the route table. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return withCheckedAnswer(init.method ?? 'GET', path, await fetch(`${this.url}${path}`, init));
  }

  /** The JSON of a route's response; undefined for a route without one. Throws ApiError outside 2xx. */
  ask<N extends RouteName>(name: N, call: CallOf<Routes[N]> = {}): Promise<AnswerOf<N>> {
    const { method, path }: Route = ROUTES[name];
    const { params = {}, query = {}, body, signal }: CallOf<Route> = call;
    const target = path.replace(/:(\w+)(?:\{.+\})?/g, (_, key) => encodeURIComponent(params[key] ?? ''));
    const search = Object.entries(query).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
    return this.call(
      method,
      [target, ...(search.length > 0 ? [search.join('&')] : [])].join('?'),
      body,
      signal,
    );
  }

  /** The JSON body (undefined for 204); ApiError outside 2xx. */
  async call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const response = await this.fetch(path, {
      method,
      ...(body !== undefined && {
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      }),
      ...(signal && { signal }),
    });
    const text = await response.text();
    if (!response.ok) {
      let message = text;
      try {
        message = (JSON.parse(text) as { error: string }).error;
      } catch {}
      throw new ApiError(response.status, message, response.status === 500 ? this.#explain() : '');
    }
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }

  create(options: Record<string, unknown> = {}, signal?: AbortSignal): Promise<SandboxJson> {
    return this.ask('createSandbox', { body: options, ...(signal && { signal }) });
  }

  async list(): Promise<readonly SandboxJson[]> {
    return (await this.ask('listSandboxes')).sandboxes;
  }

  async delete(id: string): Promise<void> {
    await this.ask('deleteSandbox', { params: { id } });
  }

  /** Runs a command until it exits; returns its whole output as text. */
  async exec(id: string, cmd: readonly string[], options: Record<string, unknown> = {}): Promise<ExecOutput> {
    const response = await this.fetch(`/sandboxes/${id}/exec`, {
      method: 'POST',
      body: JSON.stringify({ cmd, ...options }),
    });
    if (!response.ok)
      throw new ApiError(response.status, ((await response.json()) as { error: string }).error);
    return collectExec(response.body as ReadableStream<Uint8Array>);
  }

  /** A shell command's trimmed stdout; throws unless it exits with 0. */
  async sh(id: string, script: string, options: Record<string, unknown> = {}): Promise<string> {
    const { stdout, stderr, result } = await this.exec(id, ['sh', '-c', script], options);
    if (result.exit_code !== 0) throw new Error(`${script}: ${JSON.stringify(result)} ${stderr}`);
    return stdout.trimEnd();
  }
}

/** Reads an exec stream until its end. Throws unless it ends with exactly one exit frame. */
export async function collectExec(body: AsyncIterable<Uint8Array>): Promise<ExecOutput> {
  const decoder = new ExecFrameDecoder();
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  let result: ExecResultJson | undefined;
  for await (const chunk of body) {
    for (const { type, payload } of decoder.push(chunk)) {
      if (result !== undefined) throw new Error('a frame behind the exit frame');
      if (type === EXEC_FRAME.stdout) out.push(payload);
      else if (type === EXEC_FRAME.stderr) err.push(payload);
      else if (type === EXEC_FRAME.exit) result = execResult.parse(JSON.parse(payload.toString()));
      else throw new Error(`a frame of type ${type}`);
    }
  }
  if (!decoder.isAtBoundary) throw new Error('the stream ends within a frame');
  if (result === undefined) throw new Error('the stream ends without an exit frame');
  return { stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString(), result };
}
