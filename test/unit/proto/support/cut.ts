// Splits bytes into chunks of given sizes, each in its own buffer.
export function cut(text: Buffer, sizes: Iterable<number>): Buffer[] {
  const chunks: Buffer[] = [];
  let at = 0;
  for (const size of sizes) {
    if (at >= text.length) break;
    chunks.push(Buffer.from(text.subarray(at, at + size)));
    at += size;
  }
  if (at < text.length) chunks.push(Buffer.from(text.subarray(at)));
  return chunks;
}
