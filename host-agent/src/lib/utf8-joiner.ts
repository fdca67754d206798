// Joins output chunks that may end within a UTF-8 character: the incomplete part waits for the next chunk.

export const NOTHING: Buffer = Buffer.alloc(0);

/** Number of bytes (0 to 3) at the end of `bytes` that begin an incomplete UTF-8 character. */
export function unfinishedBytes(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return byte < 0xf8 && length > back ? back : 0;
  }
  return 0;
}

/** Splits `held` plus `chunk` into complete characters and an incomplete rest. */
export function joinText(held: Buffer, chunk: Buffer): { readonly whole: Buffer; readonly held: Buffer } {
  const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
  const waiting = unfinishedBytes(bytes);
  if (waiting === 0) return { whole: bytes, held: NOTHING };
  const end = bytes.length - waiting;
  return { whole: bytes.subarray(0, end), held: Buffer.from(bytes.subarray(end)) };
}
