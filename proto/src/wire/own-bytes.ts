// Views and what they keep alive.

/**
 * Returns `view`, or a copy of its own when the memory behind it is more than four times as long. A queue of single
 * bytes, each of them the only one left of a 64 KiB chunk, would otherwise hold 65,536 times what it seems to.
 */
export function ownBytes(view: Buffer): Buffer {
  if (view.length * 4 >= view.buffer.byteLength) return view;
  const own = Buffer.allocUnsafeSlow(view.length);
  own.set(view);
  return own;
}
