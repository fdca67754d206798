// One route as an operation of the document.
import type { JsonSchema } from '../json-schema.ts';
import { type Answer, type Example, errorsOf, type Route } from '../routes/route.ts';
import { errorResponse } from '../schemas/answers.ts';
import type { Components } from './components.ts';

export type Parameter = {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
  readonly example?: unknown;
};
export type Media = { readonly schema?: JsonSchema; readonly example?: unknown };
export type Content = Readonly<Record<string, Media>>;
export type DocumentedAnswer = {
  readonly description: string;
  readonly headers?: Readonly<Record<string, object>>;
  readonly content?: Content;
};

export type DocumentedOperation = {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security: readonly object[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly description?: string;
    readonly content: Content;
  };
  readonly responses: Readonly<Record<string, DocumentedAnswer>>;
  /** Access rights, transport and exec frames of the route. */
  readonly [extension: `x-${string}`]: unknown;
};

/** A parameter of every operation with a JSON body. */
const PREFER: Parameter = {
  name: 'Prefer',
  in: 'header',
  required: false,
  description:
    'handling=strict: unknown fields cause status 400 instead of warnings; the response then has Preference-Applied',
  schema: { type: 'string' },
};

const HEADERS = {
  401: { 'WWW-Authenticate': 'Bearer' },
  426: { Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' },
  503: { 'Retry-After': 'seconds to wait before the next try' },
} as const satisfies Record<number, Record<string, string>>;

export function toOperation(name: string, route: Route, components: Components): DocumentedOperation {
  const { tag, summary, description, access, alsoNeeds, isExperimental, transport, upward } = route;
  const parameters = [
    ...toParameters('path', route.params, route.example?.params, components),
    ...toParameters('query', route.query, route.example?.query, components),
    ...Object.entries(route.headers ?? {}).map(([header, text]) => toHeaderParameter(header, text)),
    ...(route.body?.kind === 'json' ? [PREFER] : []),
  ];
  const requestBody = toRequestBody(route, components);
  return {
    operationId: name,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    security: access === 'public' ? [] : [{ bearer: [] }, {}],
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody && { [transport === 'websocket' ? 'x-first-message' : 'requestBody']: requestBody }),
    responses: toResponses(route, components),
    'x-access': access,
    ...(alsoNeeds && { 'x-also-needs': alsoNeeds }),
    ...(isExperimental && { 'x-experimental': true }),
    ...(transport && { 'x-transport': transport }),
    ...(upward && { 'x-upward-frames': upward }),
  };
}

function toHeaderParameter(name: string, description: string): Parameter {
  return { name, in: 'header', required: false, description, schema: { type: 'string' } };
}

function toParameters(
  place: 'path' | 'query',
  schema: Route['params'],
  examples: Example['params'],
  components: Components,
): Parameter[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = components.toSchema(schema);
  return Object.entries(properties).map(([name, property]) => {
    const { description, title: _, ...rest } = property as JsonSchema;
    const example = examples?.[name];
    const shown = rest.type === 'integer' ? Number(example) : rest.type === 'array' ? [example] : example;
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(description !== undefined && { description }),
      schema: rest,
      ...(example !== undefined && { example: shown }),
    };
  });
}

function toRequestBody({ body, example }: Route, components: Components): DocumentedOperation['requestBody'] {
  if (body === undefined) return undefined;
  if (body.kind === 'bytes')
    return { required: false, description: body.description, content: { [body.contentType]: {} } };
  const schema = components.toSchema(body.schema);
  const { required } = components.schemas[schema.$ref?.split('/').at(-1) ?? ''] ?? schema;
  const media = {
    // An absent body and `null` mean an object without fields.
    schema: required === undefined ? { anyOf: [schema, { type: 'null' as const }] } : schema,
    ...(example?.body !== undefined && { example: example.body }),
  };
  return { required: required !== undefined, content: { 'application/json': media } };
}

function toResponses(route: Route, components: Components): DocumentedOperation['responses'] {
  const responses: Record<string, DocumentedAnswer> = {};
  for (const answer of route.answers) responses[answer.status] = toAnswer(answer, route, components);
  const error = { 'application/json': { schema: components.toSchema(errorResponse) } };
  for (const [status, when] of Object.entries(errorsOf(route))) {
    const headers = HEADERS[Number(status) as keyof typeof HEADERS];
    responses[status] = { description: when, headers: toHeaders(headers), content: error };
  }
  return responses;
}

function toAnswer(answer: Answer, { answers, example }: Route, components: Components): DocumentedAnswer {
  const content = Object.entries(answer.content ?? {}).map(([type, described]) => {
    // The example is one of the first answer.
    const isShown = type === 'application/json' && answer === answers[0] && example?.answer !== undefined;
    if (described.kind === 'bytes')
      return [type, described.frames ? { 'x-frames': described.frames } : {}] as const;
    const schema = components.toSchema(described.schema);
    if (described.kind === 'lines') return [type, { schema, 'x-each-line': true }] as const;
    return [type, { schema, ...(isShown && { example: example.answer }) }] as const;
  });
  return {
    description: answer.description,
    headers: toHeaders(answer.headers),
    ...(content.length > 0 && { content: Object.fromEntries(content) }),
  };
}

function toHeaders(headers: Readonly<Record<string, string>> = {}): Readonly<Record<string, object>> {
  const own = Object.entries(headers).map(([name, description]) => [name, toHeader(description)] as const);
  return { 'X-Request-Id': { $ref: '#/components/headers/RequestId' }, ...Object.fromEntries(own) };
}

export function toHeader(description: string): { description: string; schema: JsonSchema } {
  return { description, schema: { type: 'string' } };
}
