// Saves a file of a sandbox on the user's machine: always as an attachment of unknown type, never opened in the page.
import type { FileEntry, Files } from '@sandboxd/client';
import { formatBytes } from '../../parts/format.ts';

/** The browser holds the whole file. */
const MAX_BYTES = 512 * 2 ** 20;

export async function save(files: Files, { path, name, size_bytes }: FileEntry): Promise<void> {
  if (size_bytes > MAX_BYTES)
    throw new Error(`a browser saves at most ${formatBytes(MAX_BYTES)}; use sandbox cp for this file`);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for await (const part of await files.content(path)) parts.push(new Uint8Array(part));
  const url = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
