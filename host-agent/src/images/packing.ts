// Detects the compression of an archive or layer by its first bytes; a media type may be wrong.
import type { Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';

type Packing = {
  readonly name: string;
  /** Absent for a format that is only recognised. */
  readonly unpack?: (options: { readonly chunkSize: number }) => Transform;
};

const KNOWN: readonly (readonly [mark: RegExp, packing: Packing])[] = [
  [/^1f8b/, { name: 'gzip', unpack: createGunzip }],
  // A zstd frame, or a skippable frame.
  [/^(?:28b52ffd|5.2a4d18)/, { name: 'zstd', unpack: createZstdDecompress }],
  [/^fd377a585a00/, { name: 'xz' }],
  [/^425a683.314159265359/, { name: 'bzip2' }],
  [/^(?:04|02)224d18/, { name: 'lz4' }],
  [/^4c5a495001/, { name: 'lzip' }],
  [/^1f9d/, { name: 'compress' }],
  [/^504b0304/, { name: 'zip' }],
];

/** Enough bytes to decide: a tar archive begins with a file name, which may be `BZh9`. */
export const HEAD_BYTES = 10;

/** Undefined for uncompressed data and for unknown formats. */
export function packingOf(head: Buffer): Packing | undefined {
  const text = head.toString('hex');
  return KNOWN.find(([mark]) => mark.test(text))?.[1];
}

/** Returns a phrase about a decompression error; undefined for other errors. */
export function explainDamage(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ZSTD_error_frameParameter_windowTooLarge')
    return 'zstd packed it with a window of more than 128 MiB (--long), which takes too much memory to unpack';
  const isDamage = code.startsWith('Z_') || /^(?:ERR_)?ZSTD/.test(code);
  return isDamage || code === 'ERR_STREAM_PREMATURE_CLOSE' ? 'it cannot be unpacked' : undefined;
}
