// Validates every JSON response against the OpenAPI document.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  type JsonSchema,
  type OpenApiDocument,
  ROUTES,
  type Route,
  type RouteName,
  type Routes,
  toPathPattern,
  toTemplate,
} from '@sandboxd/api';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { z } from 'zod';

type JsonOf<A> = A extends { content: { 'application/json': { schema: infer S extends z.ZodType } } }
  ? z.output<S>
  : never;

/** The JSON type of a route's response; undefined for a route without one. */
export type AnswerOf<N extends RouteName> = [JsonOf<Routes[N]['answers'][number]>] extends [never]
  ? undefined
  : JsonOf<Routes[N]['answers'][number]>;

/** As generated, which takes 0.2 s; test/http/description.test.ts compares it with the one that is served. */
const document = JSON.parse(
  readFileSync(resolve(import.meta.dirname, '../../docs/openapi.json'), 'utf8'),
) as OpenApiDocument;
// That the schemas are valid is a test of its own (test/unit/api/answers.test.ts).
const ajv = new Ajv2020({ strict: false, unicodeRegExp: false, allErrors: true, validateSchema: false });
addFormats.default(ajv);
ajv.addFormat('int64', true);
ajv.addFormat('base64', true);
/** Added once: each schema would otherwise be searched and compiled with all of them. */
const COMPONENTS = 'components.json';
ajv.addSchema({ $id: COMPONENTS, components: { schemas: close(document.components.schemas) } });

const routes = Object.values<Route>(ROUTES).map((route) => ({
  pattern: toPathPattern(route),
  method: route.method,
  operation: document.paths[toTemplate(route.path)]?.[route.method.toLowerCase()],
}));

export function isJson(headers: Headers): boolean {
  return headers.get('content-type')?.startsWith('application/json') ?? false;
}

/** Throws for a status, field or value that the OpenAPI document lacks. `path` may have a query. */
export function checkAnswer(
  method: string,
  path: string,
  status: number,
  body: unknown,
  type = 'application/json',
): void {
  const where = `${method} ${path} answered ${status}`;
  const schema = schemaOf(method, path.split('?', 1)[0] ?? '', status, type);
  if (schema === undefined)
    throw new Error(`${where} with ${type} that no route has: ${JSON.stringify(body)}`);
  const problem = problemOf(schema, body);
  if (problem !== undefined)
    throw new Error(`${where} against the document: ${JSON.stringify(body)}: ${problem}`);
}

/** Checks a whole body of any type: JSON, JSON lines and events; ignores others. Throws as `checkAnswer`. */
export function checkBody(answer: {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly type: string;
  readonly text: string;
}): void {
  const { method, path, status, text } = answer;
  const [type = ''] = answer.type.split(';', 1);
  for (const part of partsOf(type, text)) checkAnswer(method, path, status, JSON.parse(part), type);
}

function partsOf(type: string, text: string): readonly string[] {
  if (type === 'application/json') return [text];
  if (type === 'application/x-ndjson') return text.split('\n').filter((line) => line !== '');
  if (type !== 'text/event-stream') return [];
  return text.split('\n').flatMap((line) => /^data: ?(.*)$/.exec(line)?.[1] ?? []);
}

/** The validation error of a value for a schema of the document; undefined when it is valid. */
export function problemOf(schema: JsonSchema, value: unknown): string | undefined {
  const validate = validatorOf(schema);
  return validate(value) ? undefined : ajv.errorsText(validate.errors);
}

const validators = new Map<JsonSchema, ValidateFunction>();

function validatorOf(schema: JsonSchema): ValidateFunction {
  let validate = validators.get(schema);
  if (validate === undefined) {
    validate = ajv.compile(close(schema) as JsonSchema);
    validators.set(schema, validate);
  }
  return validate;
}

function schemaOf(method: string, path: string, status: number, type: string): JsonSchema | undefined {
  const operation = routes.find((route) => route.method === method && route.pattern.test(path))?.operation;
  const answer = operation?.responses[status];
  // Errors without a route have this schema too: an unknown path, a wrong method, an invalid HTTP request.
  if (answer === undefined && status >= 400) return document.components.schemas.ErrorResponse;
  // Events carry the same objects as JSON lines.
  return answer?.content?.[type === 'text/event-stream' ? 'application/x-ndjson' : type]?.schema;
}

/**
 * The same schema, with additional fields forbidden: a field that the document lacks is an error, because clients do
 * not know it. References lead to the added components.
 */
function close(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(close);
  if (typeof value !== 'object' || value === null) return value;
  const closed = Object.fromEntries(
    Object.entries(value).map(([key, part]) => [
      key,
      key === '$ref' && typeof part === 'string' ? `${COMPONENTS}${part}` : close(part),
    ]),
  );
  const isObject = closed.type === 'object' && closed.properties !== undefined;
  return isObject && closed.additionalProperties === undefined
    ? { ...closed, additionalProperties: false }
    : closed;
}

/** Returns the response after validating its JSON, if it has any. */
export async function withCheckedAnswer(method: string, path: string, response: Response): Promise<Response> {
  if (method === 'HEAD' || !isJson(response.headers)) return response;
  checkAnswer(method, path, response.status, await response.clone().json());
  return response;
}
