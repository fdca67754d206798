// Tools for agents: each call of a tool becomes requests to this API, with the key of the agent.
import { randomUUID } from 'node:crypto';
import { MAX_WATCHERS, MAX_WATCHERS_OF_EACH } from '@sandboxd/api';
import type { Admission, Bounds } from '@sandboxd/client/mcp';
import { ownerOf, type Principal, sharerOf, tenantOf } from '../../keys/index.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import { VERSION } from '../../lib/version.ts';
import { addressOf, clientSignal, endingOf, type HttpContext, headerOf } from '../context.ts';
import { type Fetch, InProcessTransport, type Transport } from '../in-process.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

const SESSION_HEADER = 'mcp-session-id';

/** The way to the REST interface for the client of a message; `signal` ends its requests. */
export type Connect = (c: HttpContext, signal: AbortSignal) => Transport;

/** Within this daemon. */
export function connectTo(fetch: Fetch): Connect {
  return (c, signal) => {
    const ending = endingOf(c);
    const caller = { principal: c.get('principal'), address: addressOf(c) };
    const env = { caller, ...(ending !== undefined && { ending }) };
    return new InProcessTransport({ fetch, env, signal });
  };
}

export function mcpHandlers({ stopping }: Pick<HttpServices, 'stopping'>, connect: Connect) {
  const limit = new ConcurrencyLimit({
    what: 'messages of agents in work',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });
  /** Calls by their client and number. */
  const inFlight = new Map<string, AbortController>();
  const admissions = new Admissions();
  return {
    serveMcp: async ({ query, body }, c) => {
      const bounds = toBounds(query);
      const tools = query.tool.length > 0 ? query.tool : undefined;
      // Loaded with the first message: the SDK is large.
      const { answerMessage, makeAdmission, TOOL_NAMES, TRANSFER_NAMES } = await import(
        '@sandboxd/client/mcp'
      );
      const names = TOOL_NAMES.filter((name) => !TRANSFER_NAMES.includes(name));
      const unknown = tools?.find((name) => !names.includes(name));
      if (unknown !== undefined)
        throw new AppError(
          'invalid_argument',
          `there is no tool ${JSON.stringify(unknown)}; there are ${names.join(', ')}`,
        );
      const toCall = nameCalls(c);
      const message = body as Message;
      if (message.method === 'notifications/cancelled')
        inFlight.get(toCall(message.params?.requestId))?.abort();
      const slot = limit.acquire(sharerOf(ownerOf(c.get('principal'))));
      const cancelled = new AbortController();
      const call = toCall(message.id);
      if (message.id !== undefined) inFlight.set(call, cancelled);
      const used = admissions.use(c.get('principal'), bounds.labels, makeAdmission);
      const onEnd = (): void => {
        slot[Symbol.dispose]();
        used.users.delete(cancelled);
        if (inFlight.get(call) === cancelled) inFlight.delete(call);
      };
      const signal = AbortSignal.any([clientSignal(c), stopping, cancelled.signal]);
      used.users.add(cancelled);
      try {
        const response = await answerMessage({
          request: toRequest(c.req.raw, signal),
          message: body,
          bounds,
          admission: used.admission,
          tools,
          version: VERSION,
          transport: connect(c, signal),
        });
        if (message.method === 'initialize') response.headers.set(SESSION_HEADER, randomUUID());
        return whole(response, signal, onEnd);
      } catch (error) {
        onEnd();
        throw error;
      }
    },
  } satisfies Partial<Handlers>;
}

type Used = { readonly admission: Admission; readonly users: Set<object> };

/** Messages of agents whose sandboxes count together: those of one tenant with the same labels. */
class Admissions {
  readonly #all = new Map<string, Used>();

  use(principal: Principal, labels: Bounds['labels'], make: () => Admission): Used {
    for (const [key, { admission, users }] of this.#all)
      if (users.size === 0 && admission.pending === 0) this.#all.delete(key);
    const key = JSON.stringify([tenantOf(principal), Object.entries(labels).sort()]);
    const used = this.#all.get(key) ?? { admission: make(), users: new Set() };
    this.#all.set(key, used);
    return used;
  }
}

type Message = {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: { readonly requestId?: unknown } | null;
};

/**
 * Names calls of one client: nothing is kept of a session but its id, which tells apart clients with the same key and
 * the same numbers of calls.
 */
function nameCalls(c: HttpContext): (call: unknown) => string {
  const { key, id } = { key: '', id: '', ...c.get('principal') };
  const session = headerOf(c, SESSION_HEADER);
  return (call) => JSON.stringify([key, id, session, call]);
}

type Query = Parameters<Handlers['serveMcp']>[0]['query'];

/** AppError invalid_argument. */
function toBounds({ profile, image, network_allow, label = [], max_sandboxes, timeout_s }: Query): Bounds {
  const labels: Record<string, string> = {};
  for (const { key, value } of label) {
    if (value === undefined)
      throw new AppError('invalid_argument', `query label must be key=value, got ${JSON.stringify(key)}`);
    labels[key] = value;
  }
  if (max_sandboxes !== undefined && label.length === 0)
    throw new AppError(
      'invalid_argument',
      'query max_sandboxes needs label: it counts sandboxes with that label',
    );
  return {
    profiles: profile,
    images: image,
    hosts: network_allow,
    labels,
    maxSandboxes: max_sandboxes,
    lifetimeS: timeout_s,
    localDirectory: undefined,
    downloadBytes: 0,
  };
}

/** The body was read already. The answer may be JSON or a stream, whatever the client would rather have. */
function toRequest({ url, headers }: Request, signal: AbortSignal): Request {
  const sent = new Headers(headers);
  sent.set('accept', 'application/json, text/event-stream');
  sent.set('content-type', 'application/json');
  for (const name of ['authorization', 'content-length', 'transfer-encoding']) sent.delete(name);
  return new Request(url, { method: 'POST', headers: sent, signal });
}

/** Calls `onEnd` at the end of the answer, however it ends. */
function whole(response: Response, signal: AbortSignal, onEnd: () => void): Response {
  const { body, status, headers } = response;
  if (body === null) {
    onEnd();
    return new Response(null, { status, headers });
  }
  const reader = body.getReader();
  const end = (): void => {
    signal.removeEventListener('abort', cancel);
    onEnd();
  };
  const cancel = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener('abort', cancel, { once: true });
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        end();
        controller.close();
      } catch (error) {
        end();
        controller.error(error);
      }
    },
    cancel(reason) {
      end();
      return reader.cancel(reason);
    },
  });
  return new Response(stream, { status, headers });
}
