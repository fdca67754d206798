// The table of routes as an OpenAPI 3.1 document. It holds the bounds of the interface; a daemon's own may be narrower, and are
// in its refusals.
import { ERRORS } from '../errors.ts';
import { ROUTES } from '../routes/index.ts';
import type { Route } from '../routes/route.ts';
import { Components } from './components.ts';
import { type DocumentedOperation, toHeader, toOperation } from './operation.ts';

export const INTERFACE_VERSION = '0.3.4';

const TAGS = {
  meta: 'Liveness, what there is to boot from, what the caller may do, and this description.',
  images: 'Container images as bootable root filesystems.',
  sandboxes: 'Virtual machines, from creation to destruction.',
  events: 'What happened, as it happens.',
  exec: 'Commands in a sandbox.',
  files: 'Files into a sandbox and out of it.',
  logs: 'What was said in a sandbox, which outlives it.',
  service: 'One supervised program of a sandbox.',
  snapshots: 'Snapshots of running sandboxes, and their forks.',
} as const satisfies Record<Route['tag'], string>;

const DESCRIPTION = `Boots, runs, snapshots and forks microVM sandboxes.

Every error is JSON: \`{"error": "<what failed, the value seen, what to do>", "code": "<which kind>"}\`. Texts may change, codes do
not; those that there are come last here. Every answer has an \`X-Request-Id\`. In a JSON body
\`null\` is as good as leaving a field out, and so is an empty body where every field is optional. Unknown fields, nested ones and
parameters of the query included, are named in the \`warnings\` of the answer; with \`Prefer: handling=strict\` they are 400.
Where keys are configured each request but those marked otherwise needs one: \`Authorization: Bearer <key>\`.

Exec frames: one byte type, three zero bytes, four bytes payload size (big-endian), payload of at most 65,536 bytes. Types:
1 stdout, 2 stderr, 3 exit (JSON, ExecResult, the last frame), 4 stdin, 5 stdin_close, 6 resize (JSON, ResizeFrame), 7 signal (JSON, SignalFrame),
8 error (JSON, ErrorResponse: a signal or size of the client that makes no sense, and is for nobody; on a WebSocket also why it is closed, before the close).

A path that is not here is 404, a wrong method on one that is 405 with \`Allow\`; \`HEAD\` works where \`GET\` does.

| code | status | when |
|---|---|---|
${Object.entries(ERRORS)
  .map(([code, { status, when }]) => `| \`${code}\` | ${status} | ${when} |`)
  .join('\n')}`;

export type OpenApiDocument = {
  readonly openapi: '3.1.1';
  readonly info: { readonly title: string; readonly version: string } & Readonly<Record<string, unknown>>;
  readonly servers: readonly unknown[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>;
  readonly components: {
    readonly securitySchemes: unknown;
    readonly headers: unknown;
    readonly schemas: Components['schemas'];
  };
};

export function toOpenApi(): OpenApiDocument {
  const components = new Components();
  const paths: Record<string, Record<string, DocumentedOperation>> = {};
  for (const [name, route] of Object.entries<Route>(ROUTES)) {
    const path = toTemplate(route.path);
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = toOperation(name, route, components);
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'sandboxd',
      version: INTERFACE_VERSION,
      summary: 'REST daemon that boots, runs, snapshots and forks microVM sandboxes',
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'the daemon that serves this document' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'a key of the daemon, where it has any' },
      },
      headers: { RequestId: toHeader('what the log of the daemon calls this request') },
      schemas: components.schemas,
    },
  };
}

/** As OpenAPI writes paths: `/images/{ref}`. */
export function toTemplate(path: string): string {
  return path.replace(/:(\w+)(?:\{.+\})?/g, '{$1}');
}
