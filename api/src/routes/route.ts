// What a route is: everything that serving it, calling it, documenting it and guarding it need to know.
import type { z } from 'zod';
import { ERRORS, type ErrorStatus } from '../errors.ts';
import type { EXEC_FRAME } from '../exec-frames.ts';
import type { Operation } from '../schemas/policy.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** An operation that a key's policy can forbid; `any-key`: never forbidden to a valid key; `public`: needs no key. */
export type Access = Operation | 'any-key' | 'public';

export type FrameName = keyof typeof EXEC_FRAME;

export type RequestBody =
  /** An empty body and `null` are `{}`; any content type but that of a form of files. */
  | { readonly kind: 'json'; readonly schema: z.ZodType }
  /** A stream of any length, of the same content types; `contentType` is what it is. */
  | { readonly kind: 'bytes'; readonly contentType: string; readonly description: string };

/** Bytes, and which exec frames they are if any. */
export type BytesContent = { readonly kind: 'bytes'; readonly frames?: readonly FrameName[] };
export type JsonContent = { readonly kind: 'json'; readonly schema: z.ZodType };
/** JSON objects, each a line. */
export type LinesContent = { readonly kind: 'lines'; readonly schema: z.ZodType };

export type Answer = {
  readonly status: 101 | 200 | 201 | 204;
  readonly description: string;
  /** By content type; absent where the answer has no body. */
  readonly content?: Readonly<Record<string, JsonContent | BytesContent | LinesContent>>;
  /** What they say, by name. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** A request that the tests send, and an answer of its kind; ids and references stand for what the test has. */
export type Example = {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly answer?: unknown;
};

export type Route = {
  readonly method: Method;
  /** As Hono writes it. */
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
    | 'snapshots';
  /** One line, without full stop. */
  readonly summary: string;
  readonly description?: string;
  readonly access: Access;
  /** What keys need instead that are older than `access`: they keep what they could. */
  readonly formerly?: Operation;
  /** A further operation that the request needs in a case that `when` describes. */
  readonly alsoNeeds?: { readonly operation: Operation; readonly when: string };
  /** It shows what a guest has or says: content, output, environment. Each such request is in the audit trail. */
  readonly readsGuest?: true;
  /** May change. */
  readonly isExperimental?: true;
  /** Parameters of the path and of the query: objects of texts. */
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: RequestBody;
  readonly answers: readonly Answer[];
  /** `stream`: the answer has no known end. `duplex`: so may be, with `upward` frames on the same connection. `websocket`: an upgrade. */
  readonly transport?: 'stream' | 'duplex' | 'websocket';
  /** Frames that the client may send. */
  readonly upward?: readonly FrameName[];
  /** When which errors come, beside those that `errorsOf` knows of itself. */
  readonly errors?: Partial<Record<ErrorStatus, string>>;
  readonly example?: Example;
};

/** Matches the paths of a route, as they come: without query, percent-encoded. */
export function toPathPattern({ path }: Pick<Route, 'path'>): RegExp {
  return new RegExp(`^${path.replace(/:\w+(?:\{(.+)\})?/g, (_, form = '[^/]+') => form)}$`);
}

/** Every error that a route can answer with: status → when. */
export function errorsOf(route: Route): Partial<Record<ErrorStatus, string>> {
  const { body, access } = route;
  return {
    400: 'a parameter or the request itself makes no sense',
    ...(access !== 'public' && { 401: ERRORS.unauthenticated.when }),
    403: ERRORS.forbidden.when,
    ...(body !== undefined && { 408: ERRORS.timeout.when }),
    ...(body?.kind === 'json' && { 413: ERRORS.too_large.when }),
    ...(body !== undefined && { 415: ERRORS.unsupported_media.when }),
    500: ERRORS.internal.when,
    503: `${ERRORS.exhausted.when}; or ${ERRORS.cancelled.when}`,
    ...route.errors,
  };
}

export const json = <S extends z.ZodType>(schema: S) =>
  ({ 'application/json': { kind: 'json', schema } }) as const;
export const jsonBody = <S extends z.ZodType>(schema: S) => ({ kind: 'json', schema }) as const;
