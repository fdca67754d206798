// Reads and validates the input of a request with the schemas of its route: path, then query, then body.
import {
  type Checked,
  checkBody,
  checkParameters,
  findUnknownParameters,
  type RequestBody,
  type Route,
} from '@sandboxd/api';
import { z } from 'zod';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { type HttpContext, headerOf } from '../context.ts';
import { HttpError } from '../errors.ts';
import { MAX_LOGGED_CHARS } from '../middleware/logging.ts';
import { readJson } from './json-body.ts';
import { isStrict } from './preference.ts';
import { decodeText, namesOfQuery, readQuery } from './texts.ts';

/** `undefined` for parts without a schema, for a body of bytes, and for the first message of a WebSocket. */
export type Input<R extends Route> = {
  readonly params: Output<R, 'params'>;
  readonly query: Output<R, 'query'>;
  readonly body: R extends { transport: 'websocket' }
    ? undefined
    : R extends { body: { kind: 'json'; schema: infer S extends z.ZodType } }
      ? z.output<S>
      : undefined;
  /** Unknown fields and parameters. */
  readonly warnings: readonly string[];
};

type Output<R extends Route, K extends 'params' | 'query'> = R extends { [P in K]: infer S extends z.ZodType }
  ? z.output<S>
  : undefined;

/** Also adds the path parameters to the logger of the request. AppError invalid_argument, too_large; HttpError. */
export async function readInput<R extends Route>(
  c: HttpContext,
  route: R,
  idleMs?: number,
): Promise<Input<R>> {
  const { body, transport }: Route = route;
  if (body !== undefined) assertNoForm(c, body);
  const params =
    route.params && checked(checkParameters(route.params, readPath(c, route.path, route.params))).value;
  const query = route.query && checked(checkParameters(route.query, readQueries(c, route.query))).value;
  const strict = isStrict(c);
  const unknown = findUnknownParameters(Object.keys(route.query?.shape ?? {}), namesOfQuery(c.req.url));
  if (strict && unknown.length > 0) throw new AppError('invalid_argument', unknown.join('; '));
  const hasJson = body?.kind === 'json' && transport !== 'websocket';
  const sent = hasJson ? checked(checkBody(body.schema, await readJson(c, idleMs), strict)) : undefined;
  const takesNoBody = body === undefined && route.method !== 'GET';
  const unexpected = takesNoBody && hasBody(c) ? await readUnexpectedBody(c, strict, idleMs) : [];
  const warnings = [...unknown, ...(sent?.warnings ?? unexpected)];
  return { params, query, body: sent?.value, warnings } as unknown as Input<R>;
}

function hasBody(c: HttpContext): boolean {
  const { incoming }: Partial<HttpContext['env']> = c.env ?? {};
  if (incoming === undefined) return c.req.raw.body !== null;
  return (
    incoming.headers['transfer-encoding'] !== undefined || Number(incoming.headers['content-length']) > 0
  );
}

/**
 * Warnings for the body of a request whose route takes no body, such as a grace period for a restart. Existing clients
 * may send any body, so only a strict request fails. AppError invalid_argument, cancelled.
 */
async function readUnexpectedBody(
  c: HttpContext,
  isStrict: boolean,
  idleMs?: number,
): Promise<readonly string[]> {
  try {
    const { warnings } = checked(checkBody(NO_FIELDS, await readJson(c, idleMs), isStrict));
    return warnings;
  } catch (error) {
    if (isStrict && isAppError(error) && error.code === 'invalid_argument') throw error;
    if (isAppError(error) && error.code === 'cancelled') throw error;
    if (isStrict)
      throw new AppError('invalid_argument', `no body is asked for here: ${toError(error).message}`);
    return [];
  }
}

const NO_FIELDS = z.object({});

/** Refuses multipart/form-data, as `curl -F` and HTML forms send it. HttpError unsupported_media. */
function assertNoForm(c: HttpContext, body: RequestBody): void {
  if (!/^multipart\//i.test(headerOf(c, 'content-type') ?? '')) return;
  const instead =
    body.kind === 'json'
      ? "JSON, as curl -H 'Content-Type: application/json' -d '{…}' does"
      : `the bytes themselves, as curl -H 'Content-Type: ${body.contentType}' --data-binary @file does ` +
        `(${body.description})`;
  throw new HttpError('unsupported_media', `the body is a form, as curl -F makes it; send ${instead}`);
}

/** AppError invalid_argument. */
export function checked<T>(result: Checked<T>): Checked<T> & { readonly isValid: true } {
  if (result.isValid) return result;
  throw new AppError('invalid_argument', result.problem);
}

function readPath(c: HttpContext, path: string, schema: z.ZodObject): Record<string, string> {
  const segments = new URL(c.req.url).pathname.split('/');
  const found: Record<string, string> = {};
  for (const [at, part] of path.split('/').entries()) {
    const [, name, form] = /^:(\w+)(\{)?/.exec(part) ?? [];
    if (name === undefined) continue;
    const { title = name } = z.globalRegistry.get(schema.shape[name] ?? schema) ?? {};
    // Only the last parameter may contain slashes.
    const encoded = segments.slice(at, form === undefined ? at + 1 : undefined).join('/');
    const text = decodeText(encoded, title);
    found[name] = text;
    const [kind = name] = title.split(' ');
    c.get('log').setBindings({ [kind]: text.slice(0, MAX_LOGGED_CHARS) });
  }
  return found;
}

function readQueries(c: HttpContext, schema: z.ZodObject): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const text = readQuery(c.req.url, name);
    if (text !== undefined) found[name] = text;
  }
  return found;
}
