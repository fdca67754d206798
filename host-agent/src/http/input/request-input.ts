// Reads and validates the input of a request with the schemas of its route: path, then query, then body.
import {
  type Checked,
  checkBody,
  checkParameters,
  findUnknownParameters,
  type RequestBody,
  type Route,
  show,
} from '@sandboxd/api';
import { z } from 'zod';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { connectionOf, type HttpContext, headerOf, MAX_LOGGED_CHARS } from '../context.ts';
import { HttpError } from '../errors.ts';
import { readJson } from './json-body.ts';
import { isStrict } from './preference.ts';

/** `undefined` for parts without a schema, for a body of bytes, and for the first message of a WebSocket. */
export type Input<R extends Route> = {
  readonly params: Output<R, 'params'>;
  readonly query: Output<R, 'query'>;
  readonly body: R extends { transport: 'websocket' }
    ? undefined
    : R extends { body: { kind: 'json'; schema: infer S extends z.ZodType } }
      ? z.output<S>
      : undefined;
  /** The JSON body before its validation. */
  readonly json: unknown;
  /** Unknown fields and parameters. */
  readonly warnings: readonly string[];
};

/** More values of one parameter are not read; every schema refuses so many. */
const MAX_REPEATED = 1000;

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
  const query = route.query && checked(checkParameters(route.query, readQueries(c, route))).value;
  const strict = isStrict(c);
  const unknown = findUnknownParameters(Object.keys(route.query?.shape ?? {}), namesOfQuery(c.req.url));
  if ((strict || route.exactQuery) && unknown.length > 0)
    throw new AppError('invalid_argument', unknown.join('; '));
  const hasJson = body?.kind === 'json' && transport !== 'websocket';
  const json = hasJson ? await readJson(c, idleMs) : undefined;
  const sent = hasJson ? checked(checkBody(body.schema, json, strict)) : undefined;
  const takesNoBody = body === undefined && route.method !== 'GET';
  const unexpected = takesNoBody && hasBody(c) ? await readUnexpectedBody(c, strict, idleMs) : [];
  const warnings = [...unknown, ...(sent?.warnings ?? unexpected)];
  return { params, query, body: sent?.value, json, warnings } as unknown as Input<R>;
}

function hasBody(c: HttpContext): boolean {
  const { incoming } = connectionOf(c);
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

/** Texts by name, and arrays of them for parameters that may be repeated. AppError invalid_argument. */
function readQueries(
  c: HttpContext,
  { query, exactQuery }: Pick<Route, 'query' | 'exactQuery'>,
): Record<string, string | string[]> {
  const found: Record<string, string | string[]> = {};
  for (const [name, schema] of Object.entries(query?.shape ?? {})) {
    const isList = z.globalRegistry.get(schema)?.type === 'array';
    if (!isList && !exactQuery) {
      const text = readQuery(c.req.url, name);
      if (text !== undefined) found[name] = text;
      continue;
    }
    const all = readAllQueries(c.req.url, name);
    if (exactQuery && all.includes(''))
      throw new AppError('invalid_argument', `query ${name} is empty; leave it out, or give a value`);
    if (exactQuery && !isList && all.length > 1)
      throw new AppError('invalid_argument', `query ${name} is given ${all.length} times; give it once`);
    const [first] = all;
    if (first !== undefined) found[name] = isList ? all : first;
  }
  return found;
}

// Decodes the path and query of a request strictly. Errors name the invalid part.
/** The first value of a parameter; undefined if absent or empty. AppError invalid_argument if it cannot be decoded. */
export function readQuery(url: string, name: string): string | undefined {
  const [first] = readAllQueries(url, name, 1);
  return first || undefined;
}

/** The first `max` values of a parameter, decoded; "" for an empty one. */
function readAllQueries(url: string, name: string, max = MAX_REPEATED): string[] {
  const [, query = ''] = url.split('#', 1)[0]?.split(/\?(.*)/s) ?? [];
  const found: string[] = [];
  for (const pair of query.split('&')) {
    const [, key = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair.replaceAll('+', ' ')) ?? [];
    if (key !== name && lenientlyDecoded(key) !== name) continue;
    found.push(decodeText(value, `query ${name}`));
    if (found.length === max) break;
  }
  return found;
}

/** The distinct names of all parameters. A name that cannot be decoded stays encoded. */
function namesOfQuery(url: string): readonly string[] {
  const [, query = ''] = url.split('#', 1)[0]?.split(/\?(.*)/s) ?? [];
  const names = query.split('&').map((pair) => pair.split('=', 1)[0]?.replaceAll('+', ' ') ?? '');
  return [...new Set(names.map(lenientlyDecoded))].filter((name) => name !== '');
}

/** Percent-encoded UTF-8 without NUL → text. AppError invalid_argument names `what` and the error. */
export function decodeText(encoded: string, what: string): string {
  const text = decoded(encoded);
  if (text === undefined) {
    const broken = /%(?![\da-f]{2}).{0,2}/i.exec(encoded)?.[0];
    const found = broken === undefined ? `${show(firstNotUtf8(encoded))}, which is not UTF-8` : show(broken);
    throw new AppError('invalid_argument', `${what} has a bad % escape, ${found}; write % itself as %25`);
  }
  if (!text.includes('\0')) return text;
  throw new AppError('invalid_argument', `${what} has a NUL character, got ${show(text)}; leave it out`);
}

function decoded(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

function lenientlyDecoded(encoded: string): string {
  return decoded(encoded) ?? encoded;
}

function firstNotUtf8(encoded: string): string {
  const runs = encoded.match(/(?:%[\da-f]{2})+/gi) ?? [];
  return runs.find((run) => decoded(run) === undefined) ?? encoded;
}
