// Bounds the memory that a view of a buffer keeps alive.

/**
 * Returns `view`, or a copy when its buffer is more than four times as large. Otherwise a queue of single bytes, each a
 * view of its own 64 KiB chunk, would keep 65,536 times its size in memory.
 */
export function ownBytes(view: Buffer): Buffer {
  if (view.length * 4 >= view.buffer.byteLength) return view;
  const own = Buffer.allocUnsafeSlow(view.length);
  own.set(view);
  return own;
}
