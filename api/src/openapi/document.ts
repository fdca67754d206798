// The table of routes as an OpenAPI 3.1 document. It shows the limits of the API. A daemon may have lower limits, which
// its error messages show.
import { ERRORS } from '../errors.ts';
import { ROUTES } from '../routes/index.ts';
import type { Route } from '../routes/route.ts';
import { Components } from './components.ts';
import { type DocumentedOperation, toHeader, toOperation } from './operation.ts';

const INTERFACE_VERSION = '0.3.4';

const TAGS = {
  meta: 'Health check, profiles, rights of the caller, metrics, and the description of this API.',
  images: 'Container images, converted to root filesystems that sandboxes boot from.',
  sandboxes: 'Sandboxes: microVMs that the daemon creates, shows and deletes.',
  events: 'Events of sandboxes and snapshots.',
  exec: 'Commands that run in a sandbox.',
  files: 'Upload and download of files of a sandbox.',
  logs: 'Durable logs with the output of a sandbox. They outlive the sandbox.',
  service: 'The supervised program (service) of a sandbox.',
  ports: 'TCP ports of a sandbox: connections to them, and which are open for URLs.',
  network: 'What the guest of a sandbox may reach.',
  secrets: 'Stored secrets, which guests can use and never have.',
  snapshots: 'Snapshots of running sandboxes, and forks of snapshots.',
} as const satisfies Record<Route['tag'], string>;

const DESCRIPTION = `Boots, runs, snapshots and forks microVM sandboxes.

Every error is JSON: \`{"error": "<what failed, the value, what to do>", "code": "<error code>"}\`. Texts may change;
codes do not. The table at the end lists the codes. Every response has an \`X-Request-Id\` header. In a JSON body,
\`null\` has the same meaning as an absent field. If every field is optional, the body may be empty. The \`warnings\`
of the response list unknown fields (nested ones too) and unknown query parameters; with \`Prefer: handling=strict\`
they cause status 400. If the daemon has keys, every request that is not marked otherwise needs one: \`Authorization:
Bearer <key>\`.

Exec frames: one byte for the type, three zero bytes, four bytes for the payload size (big-endian), and a payload of
at most 65,536 bytes. Types: 1 stdout, 2 stderr, 3 exit (JSON, ExecResult, the last frame), 4 stdin, 5 stdin_close, 6
resize (JSON, ResizeFrame), 7 signal (JSON, SignalFrame), 8 error (JSON, ErrorResponse), 9
position, 10 started (JSON, the id of the command). An error frame reports an invalid signal or size of the client. On
a WebSocket it also reports why the daemon closes the connection, before the close. Readers skip types that they do not
know.

An unknown path causes 404. An unsupported method causes 405 with \`Allow\`. \`HEAD\` works wherever \`GET\` works.

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
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'a key of the daemon; not needed if the daemon has no keys',
        },
      },
      headers: { RequestId: toHeader('the id of this request in the log of the daemon') },
      schemas: components.schemas,
    },
  };
}

/** Converts a path to OpenAPI's syntax: `/images/{ref}`. */
export function toTemplate(path: string): string {
  return path.replace(/:(\w+)(?:\{.+\})?/g, '{$1}');
}
