// Saves a file of a sandbox on the user's machine: always as an attachment of unknown type, never opened in the page.
import type { FileEntry, Files } from '@sandboxd/client';
import { formatBytes } from '../../parts/format.ts';

/** The browser holds the whole file. */
const MAX_BYTES = 512 * 2 ** 20;

export async function save(files: Files, { path, name, size_bytes }: FileEntry): Promise<void> {
  if (size_bytes > MAX_BYTES) throw tooLong();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for await (const part of await files.content(path)) {
    bytes += part.length;
    // It may have grown, or never end.
    if (bytes > MAX_BYTES) throw tooLong();
    parts.push(new Uint8Array(part));
  }
  const url = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  // Characters that reorder text could hide what kind of file it is.
  link.download = name.replace(/\p{Cf}/gu, '');
  link.click();
  URL.revokeObjectURL(url);
}

function tooLong(): Error {
  return new Error(`a browser saves at most ${formatBytes(MAX_BYTES)}; use sandbox cp for this file`);
}
