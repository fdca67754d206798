// Generates client/src/gen from the route table through the OpenAPI document: types of requests and responses, and the
// method and path of each route. The client library includes neither schemas nor a validator. usage: node
// scripts/client-contract.ts [folder]
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  type DocumentedOperation,
  type JsonSchema,
  type OpenApiDocument,
  ROUTES,
  toOpenApi,
} from '@sandboxd/api';
import openapiTs, { astToString } from 'openapi-typescript';

const HEADER = '// Made by scripts/client-contract.ts from api/. Do not edit.\n';

/** File contents by file name. */
export async function renderContract(): Promise<Readonly<Record<string, string>>> {
  const document = toOpenApi();
  return { 'schemas.ts': await renderSchemas(document), 'routes.ts': renderRoutes(document) };
}

/** Fields with a default are optional, because the types describe what a client sends. */
async function renderSchemas({ components, ...rest }: OpenApiDocument): Promise<string> {
  const { schemas } = components;
  const document = { ...rest, paths: {}, components: { schemas } };
  const nodes = await openapiTs(document as never, { defaultNonNullable: false, immutable: true });
  return `${HEADER}${astToString(nodes)}\nexport type Schemas = components['schemas'];\n`;
}

function renderRoutes({ paths }: OpenApiDocument): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  const routes = operations.map(
    ({ method, path, operation: { operationId, summary } }) =>
      `  ${operationId}: ${JSON.stringify({ method, path, summary })},\n`,
  );
  const calls = operations.map(({ operation }) => `  ${operation.operationId}: ${renderCall(operation)};\n`);
  return `${HEADER}import type { Schemas } from './schemas.ts';

export const ROUTES = {
${routes.join('')}} as const;

export type RouteName = keyof typeof ROUTES;

/** For each operation: its JSON request body, and its JSON response. */
export type Calls = {
${calls.join('')}};
`;
}

function renderCall({ operationId, requestBody, responses }: DocumentedOperation): string {
  const status = ROUTES[operationId as keyof typeof ROUTES].answers[0].status;
  const body = toName(requestBody?.content['application/json']?.schema);
  const answer = toName(responses[status]?.content?.['application/json']?.schema);
  return `{ readonly body: ${body}; readonly answer: ${answer} }`;
}

function toName(schema: JsonSchema | undefined): string {
  if (schema === undefined) return 'undefined';
  const [own = schema] = schema.anyOf ?? [];
  const name = (own as JsonSchema).$ref?.split('/').at(-1);
  return name === undefined ? 'unknown' : `Schemas['${name}']`;
}

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? join(import.meta.dirname, '../client/src/gen'));
  for (const [name, text] of Object.entries(await renderContract())) writeFileSync(join(folder, name), text);
}
