// Files of a sandbox: read a file, download a file or directory as tar, upload a tar archive.
import type { ByteSource } from '../../guest/files.ts';
import { clientSignal, guestOf } from '../context.ts';
import { readBody } from '../input/body-source.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

/** Two blocks of zeros. */
const EMPTY_ARCHIVE = Buffer.alloc(1024);

export function fileHandlers({ sandboxes: host, bodyIdleMs }: HttpServices) {
  return {
    readFile: async ({ params: { id }, query: { path, max_bytes, format } }, c) => {
      const files = (await guestOf(host, c, id)).files();
      const signal = clientSignal(c);
      const isTar = format === 'tar';
      const { sizeBytes, contentBytes, body } = isTar
        ? await files.pullDirectory(path, signal)
        : await files.pullFile(path, max_bytes, signal);
      const headers = {
        'Content-Type': isTar ? 'application/x-tar' : 'application/octet-stream',
        ...(sizeBytes !== undefined && { 'X-File-Size': String(sizeBytes) }),
        ...(contentBytes !== undefined && { 'Content-Length': String(contentBytes) }),
        ...(sizeBytes !== undefined &&
          contentBytes !== undefined &&
          contentBytes < sizeBytes && { 'X-Truncated': 'true' }),
      };
      if (c.req.raw.method !== 'HEAD') return answerPullStream(c, body, headers);
      body.cancel();
      return c.body(null, 200, headers);
    },

    pushFiles: async ({ params: { id }, query: { path, owner } }, c) => {
      const guestFiles = (await guestOf(host, c, id)).files();
      const body = readBody(c, bodyIdleMs);
      try {
        const { files, bytes } = await guestFiles.pushFiles(
          path,
          orEmptyArchive(body.read),
          clientSignal(c),
          owner,
        );
        return { files, bytes };
      } finally {
        body.discard(); // after an early response the client may still send
      }
    },
  } satisfies Partial<Handlers>;
}

/** Replaces an empty body with an empty archive, which has an end mark. */
function orEmptyArchive(read: ByteSource): ByteSource {
  let hasBegun = false;
  return async () => {
    const bytes = await read();
    const isFirst = !hasBegun;
    hasBegun = true;
    return isFirst && bytes === undefined ? EMPTY_ARCHIVE : bytes;
  };
}
