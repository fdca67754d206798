// Files of a sandbox: one file's bytes or a directory as tar out, a tar archive in.
import type { ByteSource } from '../../guest/files.ts';
import { AppError } from '../../lib/errors.ts';
import { clientSignal } from '../client-signal.ts';
import { type HttpApp, type HttpContext, show } from '../context.ts';
import { readBody } from '../input/body-source.ts';
import { readSandboxId } from '../input/ids.ts';
import { readChoice, readCount, readQuery } from '../input/query.ts';
import { toWebStream } from '../outflow.ts';
import type { HttpServices } from '../services.ts';

const DEFAULT_MAX_BYTES = 10 * 1024 * 1024;
/** Two blocks of zeros. */
const EMPTY_ARCHIVE = Buffer.alloc(1024);

export function addFileRoutes(app: HttpApp, { sandboxes, bodyIdleMs }: HttpServices): void {
  app.get('/sandboxes/:id/files', async (c) => {
    const id = readSandboxId(c);
    const path = readPath(c);
    const maxBytes = readCount(c, 'max_bytes', 1) ?? DEFAULT_MAX_BYTES;
    const isTar = readChoice(c, 'format', ['raw', 'tar']) === 'tar';
    const files = sandboxes.get(id).files();
    const signal = clientSignal(c);
    const { sizeBytes, contentBytes, body } = isTar
      ? await files.pullDirectory(path, signal)
      : await files.pullFile(path, maxBytes, signal);
    const headers = {
      'Content-Type': isTar ? 'application/x-tar' : 'application/octet-stream',
      ...(sizeBytes !== undefined && { 'X-File-Size': String(sizeBytes) }),
      ...(contentBytes !== undefined && { 'Content-Length': String(contentBytes) }),
      ...(sizeBytes !== undefined &&
        contentBytes !== undefined &&
        contentBytes < sizeBytes && { 'X-Truncated': 'true' }),
    };
    if (c.req.raw.method !== 'HEAD') return c.body(toWebStream(body), 200, headers);
    body.cancel();
    return c.body(null, 200, headers);
  });

  app.post('/sandboxes/:id/files', async (c) => {
    const id = readSandboxId(c);
    const path = readPath(c);
    const guestFiles = sandboxes.get(id).files();
    const body = readBody(c, bodyIdleMs);
    try {
      const { files, bytes } = await guestFiles.pushFiles(path, orEmptyArchive(body.read), clientSignal(c));
      return c.json({ files, bytes });
    } finally {
      body.discard(); // what was answered early is still being sent
    }
  });
}

/** An upload of no bytes is an archive of no files, whose end mark it lacks. */
function orEmptyArchive(read: ByteSource): ByteSource {
  let hasBegun = false;
  return async () => {
    const bytes = await read();
    const isFirst = !hasBegun;
    hasBegun = true;
    return isFirst && bytes === undefined ? EMPTY_ARCHIVE : bytes;
  };
}

function readPath(c: HttpContext): string {
  const path = readQuery(c, 'path');
  if (path === undefined)
    throw new AppError(
      'invalid_argument',
      'the query parameter path is missing; give an absolute path of the guest',
    );
  if (path.startsWith('/')) return path;
  throw new AppError('invalid_argument', `path must be an absolute path of the guest, got ${show(path)}`);
}
