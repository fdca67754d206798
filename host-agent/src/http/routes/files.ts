// Files of a sandbox: one file's bytes or a directory as tar out, a tar archive in.
import { AppError } from '../../lib/errors.ts';
import { clientSignal } from '../client-signal.ts';
import { type HttpApp, type HttpContext, readSandboxId, show } from '../context.ts';
import { readBody } from '../input/body-source.ts';
import { toWebStream } from '../outflow.ts';
import type { HttpServices } from '../services.ts';

const DEFAULT_MAX_BYTES = 10 * 1024 * 1024;

export function addFileRoutes(app: HttpApp, { sandboxes, bodyIdleMs }: HttpServices): void {
  app.get('/sandboxes/:id/files', async (c) => {
    const id = readSandboxId(c);
    const path = readPath(c);
    const maxBytes = readMaxBytes(c);
    const isTar = readFormat(c) === 'tar';
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
      const { files, bytes } = await guestFiles.pushFiles(path, body.read, clientSignal(c));
      return c.json({ files, bytes });
    } finally {
      body.discard(); // what was answered early is still being sent
    }
  });
}

function readPath(c: HttpContext): string {
  const path = c.req.query('path');
  if (path === undefined || path === '')
    throw new AppError(
      'invalid_argument',
      'the query parameter path is missing; give an absolute path of the guest',
    );
  if (path.startsWith('/') && !path.includes('\0')) return path;
  throw new AppError('invalid_argument', `path must be an absolute path of the guest, got ${show(path)}`);
}

function readMaxBytes(c: HttpContext): number {
  const text = c.req.query('max_bytes');
  if (text === undefined) return DEFAULT_MAX_BYTES;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : 0;
  if (value >= 1 && Number.isSafeInteger(value)) return value;
  throw new AppError('invalid_argument', `max_bytes must be a positive integer, got ${show(text)}`);
}

function readFormat(c: HttpContext): 'raw' | 'tar' {
  const format = c.req.query('format');
  if (format === undefined || format === 'raw') return 'raw';
  if (format === 'tar') return 'tar';
  throw new AppError('invalid_argument', `format must be raw or tar, got ${show(format)}`);
}
