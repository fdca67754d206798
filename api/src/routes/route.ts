// The type of a route: what the server, the clients, the documentation and the access check need to know about it.
import type { z } from 'zod';
import { ERRORS, type ErrorStatus } from '../errors.ts';
import type { EXEC_FRAME } from '../exec-frames.ts';
import { MAX_IDEMPOTENCY_KEY_CHARS } from '../limits.ts';
import type { Operation } from '../schemas/policy.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The operation that a policy must allow. `any-key`: every valid key may call it. `public`: no key is needed. */
export type Access = Operation | 'any-key' | 'public';

export type FrameName = keyof typeof EXEC_FRAME;

export type RequestBody =
  /** An empty body and `null` mean `{}`. Every content type but multipart/form-data is accepted. */
  | { readonly kind: 'json'; readonly schema: z.ZodType }
  /** A stream of any length. The same content types are accepted; `contentType` is the documented one. */
  | { readonly kind: 'bytes'; readonly contentType: string; readonly description: string };

/** Bytes. `frames` lists the types of exec frames that they carry, if any. */
export type BytesContent = { readonly kind: 'bytes'; readonly frames?: readonly FrameName[] };
export type JsonContent = { readonly kind: 'json'; readonly schema: z.ZodType };
/** JSON objects, one on each line (NDJSON). */
export type LinesContent = { readonly kind: 'lines'; readonly schema: z.ZodType };

export type Answer = {
  readonly status: 101 | 200 | 201 | 202 | 204 | 206 | 304;
  readonly description: string;
  /** By content type. Absent if the answer has no body. */
  readonly content?: Readonly<Record<string, JsonContent | BytesContent | LinesContent>>;
  /** Descriptions by header name. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** A request that the tests send, and a sample answer. The tests replace its ids and image references. */
export type Example = {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly answer?: unknown;
};

export type Route = {
  readonly method: Method;
  /** In Hono's syntax. */
  readonly path: string;
  readonly tag:
    | 'events'
    | 'meta'
    | 'images'
    | 'sandboxes'
    | 'exec'
    | 'files'
    | 'logs'
    | 'service'
    | 'ports'
    | 'network'
    | 'secrets'
    | 'snapshots';
  /** One line without a full stop. */
  readonly summary: string;
  readonly description?: string;
  readonly access: Access;
  /** A second operation that the request needs in the case that `when` describes. */
  readonly alsoNeeds?: { readonly operation: Operation; readonly when: string };
  /**
   * The answer shows data of a guest: file content, output or environment. The audit trail records each such request.
   */
  readonly readsGuest?: true;
  /** The operation may change in a later version. */
  readonly isExperimental?: true;
  /** Path and query parameters: objects of strings. */
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  /**
   * Unknown, empty and repeated parameters are refused, not ignored: without one of its filters, the request would
   * concern more than the client meant.
   */
  readonly exactQuery?: true;
  /** Headers of the request that change its meaning, beside those of every request. Descriptions by name. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody;
  readonly answers: readonly Answer[];
  /**
   * `stream`: the answer has no known length. `duplex`: the answer may be such a stream, and the client may send
   * `upward` frames on the same connection. `tunnel`: after the head the connection carries bytes in both directions.
   * `websocket`: the request is an upgrade.
   */
  readonly transport?: 'stream' | 'duplex' | 'tunnel' | 'websocket';
  /** Frames that the client may send. */
  readonly upward?: readonly FrameName[];
  /** Status → when. `errorsOf` adds the errors that follow from the rest of the route. */
  readonly errors?: Partial<Record<ErrorStatus, string>>;
  readonly example?: Example;
};

/** The header of a request whose retries get the same answer and make nothing again. */
export const IDEMPOTENCY_KEY = 'Idempotency-Key';
/** The header of an answer that an earlier request with the key got. */
export const REPLAYED = 'Idempotent-Replayed';

/** Headers of a route that takes an Idempotency-Key. */
export const KEYED = {
  [IDEMPOTENCY_KEY]:
    `identifies the request for its retries, at most ${MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters, such ` +
    'as a UUID; for a day after a success a request with the same key, from the same client, gets the same answer; ' +
    'with a key the daemon finishes the request even if the client disconnects',
} as const;
/** Headers of its successful answers. */
export const KEYED_ANSWER = {
  [REPLAYED]: 'true: an earlier request with this Idempotency-Key got this answer',
} as const;

/** Whether the route takes an Idempotency-Key. */
export function takesIdempotencyKey({ headers }: Pick<Route, 'headers'>): boolean {
  return headers !== undefined && IDEMPOTENCY_KEY in headers;
}

/** Matches the paths of a route as the client sends them: percent-encoded, without the query. */
export function toPathPattern({ path }: Pick<Route, 'path'>): RegExp {
  return new RegExp(`^${path.replace(/:\w+(?:\{(.+)\})?/g, (_, form = '[^/]+') => form)}$`);
}

/** Every error that a route can answer with: status → when. */
export function errorsOf(route: Route): Partial<Record<ErrorStatus, string>> {
  const { body, access } = route;
  return {
    400: 'a parameter or the request itself is invalid',
    ...(access !== 'public' && { 401: ERRORS.unauthenticated.when }),
    403: ERRORS.forbidden.when,
    ...(body !== undefined && { 408: ERRORS.timeout.when }),
    ...(body?.kind === 'json' && { 413: ERRORS.too_large.when }),
    ...(body !== undefined && { 415: ERRORS.unsupported_media.when }),
    ...(takesIdempotencyKey(route) && { 422: ERRORS.idempotency_mismatch.when }),
    500: ERRORS.internal.when,
    503: `${ERRORS.exhausted.when}; or ${ERRORS.cancelled.when}`,
    ...route.errors,
  };
}

export const json = <S extends z.ZodType>(schema: S) =>
  ({ 'application/json': { kind: 'json', schema } }) as const;
export const jsonBody = <S extends z.ZodType>(schema: S) => ({ kind: 'json', schema }) as const;
