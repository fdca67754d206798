// A body can be sent in chunks of a byte. Node's parser makes an object of hundreds of bytes of each, and counts only
// the byte when it asks whether there is room for more: tens of MiB for one connection. So small ones become few again
// before they wait.
import type { IncomingMessage } from 'node:http';

const SMALL_BYTES = 256;
const BLOCK_BYTES = 16 * 1024;
/** Then others have their turn. */
const MAX_PIECES_PER_TURN = 64;

/** To be called before anything of the body has come. */
export function coalesceChunks(request: IncomingMessage): void {
  const push = request.push.bind(request);
  let block = Buffer.alloc(0);
  let usedBytes = 0;
  let pieces = 0;
  const flush = (): void => {
    const gathered = block.subarray(0, usedBytes);
    block = block.subarray(usedBytes);
    usedBytes = 0;
    if (gathered.length > 0 && !request.destroyed) push(gathered);
  };
  const endTurn = (): void => {
    pieces = 0;
    flush();
  };
  request.push = (piece: Buffer | null): boolean => {
    if (piece === null || piece.length >= SMALL_BYTES) {
      flush();
      return push(piece);
    }
    if (block.length - usedBytes < piece.length) {
      flush();
      block = Buffer.allocUnsafe(BLOCK_BYTES);
    }
    block.set(piece, usedBytes);
    usedBytes += piece.length;
    if (pieces === 0) setImmediate(endTurn);
    pieces += 1;
    return pieces < MAX_PIECES_PER_TURN && request.readableLength + usedBytes < request.readableHighWaterMark;
  };
}
