// Logs and files of sandboxes as resources.
import { type McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import type { Scope } from './scope.ts';

/** Of a log or a file. */
const MAX_BYTES = 2 ** 20;
const MAX_LISTED = 200;

export function registerLogs(server: McpServer, scope: Scope): void {
  server.registerResource(
    'logs',
    new ResourceTemplate('sandbox://{sandbox}/logs', {
      list: async ({ mcpReq: { signal } }) => ({
        resources: (await scope.sandboxes({ signal })).slice(0, MAX_LISTED).map(({ id, name }) => ({
          uri: `sandbox://${id}/logs`,
          name: `logs of ${name ?? id}`,
          mimeType: 'text/plain',
        })),
      }),
    }),
    {
      description: 'The end of the log of a sandbox: output of its commands and its service.',
      mimeType: 'text/plain',
    },
    async (uri, { sandbox }, { mcpReq: { signal } }) => {
      const found = await scope.sandbox(toWord(sandbox), { signal });
      let log = '';
      for await (const { stream, text } of found.logs({ signal })) {
        log += `${stream}: ${text}\n`;
        // A guest may write faster than this reads.
        if (log.length > MAX_BYTES) break;
      }
      return { contents: [{ uri: uri.href, mimeType: 'text/plain', text: log.slice(-MAX_BYTES) }] };
    },
  );
}

export function registerFiles(server: McpServer, scope: Scope): void {
  server.registerResource(
    'file',
    new ResourceTemplate('sandbox://{sandbox}/files{+path}', { list: undefined }),
    { description: `A file of a sandbox, at most ${MAX_BYTES} bytes of it.` },
    async (uri, { sandbox, path }, { mcpReq: { signal } }) => {
      const { files } = await scope.sandbox(toWord(sandbox), { signal });
      const bytes = await files.read(decodeURIComponent(toWord(path)), { maxBytes: MAX_BYTES, signal });
      const text = toText(bytes);
      const content = text === undefined ? { blob: Buffer.from(bytes).toString('base64') } : { text };
      return { contents: [{ uri: uri.href, ...content }] };
    },
  );
}

function toWord(value: string | string[] | undefined): string {
  return Array.isArray(value) ? value.join('/') : (value ?? '');
}

/** Undefined for bytes that are not text. The end of a longer file may be within a character. */
function toText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: bytes.length >= MAX_BYTES });
  } catch {
    return undefined;
  }
}
