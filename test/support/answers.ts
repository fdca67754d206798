// Every JSON answer against the schema that the table of routes has for it.
import { isDeepStrictEqual } from 'node:util';
import { errorResponse, ROUTES, type Route, type RouteName, type Routes, toPathPattern } from '@sandboxd/api';
import type { z } from 'zod';

type JsonOf<A> = A extends { content: { 'application/json': { schema: infer S extends z.ZodType } } }
  ? z.output<S>
  : never;

/** What a route answers as JSON; undefined where it has none. */
export type AnswerOf<N extends RouteName> = [JsonOf<Routes[N]['answers'][number]>] extends [never]
  ? undefined
  : JsonOf<Routes[N]['answers'][number]>;

const routes = Object.values<Route>(ROUTES).map((route) => ({ route, pattern: toPathPattern(route) }));

export function isJson(headers: Headers): boolean {
  return headers.get('content-type')?.startsWith('application/json') ?? false;
}

/** Throws for a status, a field or a value that the table does not know; `path` may have a query. */
export function checkAnswer(method: string, path: string, status: number, body: unknown): void {
  const schema = status >= 400 ? errorResponse : schemaOf(method, path.split('?', 1)[0] ?? '', status);
  const where = `${method} ${path} answered ${status}`;
  if (schema === undefined) throw new Error(`${where} with JSON that no route has: ${JSON.stringify(body)}`);
  const { success, data, error } = schema.safeParse(body);
  if (!success) throw new Error(`${where} against its schema: ${JSON.stringify(body)}: ${error.message}`);
  // What the schema does not have is dropped from `data`.
  if (!isDeepStrictEqual(data, body))
    throw new Error(`${where} with more than its schema has: ${JSON.stringify(body)}`);
}

function schemaOf(method: string, path: string, status: number): z.ZodType | undefined {
  for (const { route, pattern } of routes) {
    if (route.method !== method || !pattern.test(path)) continue;
    const answer = route.answers.find((candidate) => candidate.status === status);
    const content = answer?.content?.['application/json'];
    return content?.kind === 'json' ? content.schema : undefined;
  }
  return undefined;
}

/** The answer itself, once its JSON, if it is that, was checked. */
export async function withCheckedAnswer(method: string, path: string, response: Response): Promise<Response> {
  if (method === 'HEAD' || !isJson(response.headers)) return response;
  checkAnswer(method, path, response.status, await response.clone().json());
  return response;
}
