// What a tar archive says about one of its members.

/** Bytes of a header, and what content is padded to. */
export const BLOCK_BYTES = 512;

/** Names are bytes: strings of code units below 256, because nothing says that file names are UTF-8. */
export type TarEntry = {
  readonly type: 'file' | 'directory' | 'symlink' | 'link' | 'character-device' | 'block-device' | 'fifo';
  readonly name: string;
  /** Of links and symlinks, else empty. */
  readonly target: string;
  /** The twelve permission bits. */
  readonly mode: number;
  readonly mtimeSeconds: number;
  readonly mtimeNanos: number;
  /** Of the file once it is made; holes included. */
  readonly sizeBytes: number;
  /** Of its content in the archive: less than the size of a file with holes. */
  readonly contentBytes: number;
};

/** The archive cannot be read on; `message` is a sentence about the archive. */
export class TarError extends Error {
  override readonly name = 'TarError';
}

/** A member's name as messages show it. */
export function showName(name: string): string {
  const text = JSON.stringify(Buffer.from(name, 'latin1').toString());
  return text.length > 120 ? `${text.slice(0, 100)}…" (${name.length} bytes)` : text;
}

/** Bytes that follow content of this length up to the next header. */
export function paddingAfter(sizeBytes: number): number {
  const rest = sizeBytes % BLOCK_BYTES;
  return rest === 0 ? 0 : BLOCK_BYTES - rest;
}
