// A tar archive's member.

/** Size of a header; content is padded to a multiple of it. */
export const BLOCK_BYTES = 512;

/** Names are byte strings (code units below 256), because file names need not be UTF-8. */
export type TarEntry = {
  readonly type: 'file' | 'directory' | 'symlink' | 'link' | 'character-device' | 'block-device' | 'fifo';
  readonly name: string;
  /** For links and symlinks; otherwise empty. */
  readonly target: string;
  /** The twelve permission bits. */
  readonly mode: number;
  readonly mtimeSeconds: number;
  readonly mtimeNanos: number;
  /** Size of the resulting file, holes included. */
  readonly sizeBytes: number;
  /** Size of the content in the archive: smaller than `sizeBytes` for a file with holes. */
  readonly contentBytes: number;
};

/** The archive is unreadable from here on; `message` is a sentence about the archive. */
export class TarError extends Error {
  override readonly name = 'TarError';
}

/** A member's name as error messages show it. */
export function showName(name: string): string {
  const text = JSON.stringify(Buffer.from(name, 'latin1').toString());
  return text.length > 120 ? `${text.slice(0, 100)}…" (${name.length} bytes)` : text;
}

/** Bytes of padding between content of this length and the next header. */
export function paddingAfter(sizeBytes: number): number {
  const rest = sizeBytes % BLOCK_BYTES;
  return rest === 0 ? 0 : BLOCK_BYTES - rest;
}
