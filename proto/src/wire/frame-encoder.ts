// Encodes frames. Data frames have their own encoder, see data-frame.ts.
import { MAX_FRAME_BYTES, MAX_MESSAGE_BYTES, PART_BYTES } from '../limits.ts';
import { FrameCodec, type FrameInput } from '../messages.ts';
import { WHOLE } from './data-frame.ts';
import { varintLength, writeVarint } from './varint.ts';

/**
 * One frame with its length prefix. A frame above the maximum size becomes several `part` frames. Throws RangeError
 * above MAX_MESSAGE_BYTES.
 */
export function encodeFrame(frame: FrameInput): Buffer[] {
  const encoded = FrameCodec.encode(frame).finish();
  if (encoded.length + WHOLE.length <= MAX_FRAME_BYTES) return [delimited(encoded)];
  if (encoded.length > MAX_MESSAGE_BYTES) {
    throw new RangeError(`a message of ${encoded.length} bytes is over the limit of ${MAX_MESSAGE_BYTES}`);
  }
  const parts: Buffer[] = [];
  for (let at = 0; at < encoded.length; at += PART_BYTES) {
    const bytes = encoded.subarray(at, at + PART_BYTES);
    const part = { bytes, last: at + PART_BYTES >= encoded.length };
    parts.push(delimited(FrameCodec.encode({ stream: frame.stream ?? 0, part }).finish()));
  }
  return parts;
}

function delimited(encoded: Uint8Array): Buffer {
  const tail = encoded.at(-1) === 0 ? WHOLE : undefined;
  const frameBytes = encoded.length + (tail?.length ?? 0);
  const out = Buffer.allocUnsafe(varintLength(frameBytes) + frameBytes);
  const at = writeVarint(out, 0, frameBytes);
  out.set(encoded, at);
  if (tail !== undefined) out.set(tail, at + encoded.length);
  return out;
}
