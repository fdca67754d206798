// The host's end of the guest's vsock: a Unix socket on which a line asks for a port of the guest.
import type { Socket } from 'node:net';
import { toError } from '../../lib/errors.ts';
import { connectUnix } from '../../lib/socket-link.ts';
import { deadline, poll } from '../../lib/wait.ts';

/** Before the guest's driver is up a request is never answered, so each try is short at first. */
const FIRST_TRY_MS = 100;
const LONGEST_TRY_MS = 1500;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 200;
/** `OK <port>` and a line end. */
const MAX_LINE_BYTES = 32;

/** Connects to a port of the guest, trying again until somebody listens there. Rejects with the signal's reason. */
export async function connectGuest(socketPath: string, port: number, signal: AbortSignal): Promise<Socket> {
  let tryMs = FIRST_TRY_MS;
  let pauseMs = FIRST_PAUSE_MS;
  for (;;) {
    try {
      return await tryConnect(socketPath, port, tryMs, signal);
    } catch {
      signal.throwIfAborted();
    }
    const until = performance.now() + pauseMs;
    await poll(async () => (performance.now() >= until ? true : undefined), pauseMs, signal);
    tryMs = Math.min(LONGEST_TRY_MS, tryMs * 1.5);
    pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
  }
}

/** One try: rejects when nobody listens (the connection then ends without a word) or nothing comes in time. */
export async function tryConnect(
  socketPath: string,
  port: number,
  timeoutMs: number,
  outer?: AbortSignal,
): Promise<Socket> {
  using limit = deadline(timeoutMs, () => new Error(`no answer within ${timeoutMs} ms`), outer);
  const socket = await connectUnix(socketPath, limit.signal);
  try {
    await shakeHands(socket, port, limit.signal);
    return socket;
  } catch (error) {
    socket.on('error', () => undefined);
    socket.destroy();
    throw error;
  }
}

/** Whatever comes behind the line is the guest's and stays to be read. */
function shakeHands(socket: Socket, port: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let line = Buffer.alloc(0);
    const finish = (settle: () => void): void => {
      signal.removeEventListener('abort', onAbort);
      socket.removeListener('readable', onReadable);
      socket.removeListener('error', onError);
      socket.removeListener('close', onClose);
      socket.removeListener('end', onClose);
      settle();
    };
    const onAbort = (): void => finish(() => reject(toError(signal.reason)));
    const onError = (cause: Error): void => finish(() => reject(cause));
    const onClose = (): void =>
      finish(() => reject(new Error(`nobody listens on port ${port} of the guest`)));
    const onReadable = (): void => {
      for (let chunk: Buffer | null = socket.read(); chunk !== null; chunk = socket.read()) {
        line = Buffer.concat([line, chunk]);
        const end = line.indexOf('\n');
        if (end < 0 && line.length <= MAX_LINE_BYTES) continue;
        const text = line.toString('latin1', 0, Math.max(end, 0));
        if (!/^OK \d+$/.test(text)) {
          finish(() => reject(new Error('the VMM did not answer a connection request with OK')));
          return;
        }
        const rest = line.subarray(end + 1);
        finish(() => {
          if (rest.length > 0) socket.unshift(rest);
          resolve();
        });
        return;
      }
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort);
    socket.on('readable', onReadable).on('error', onError).on('close', onClose).on('end', onClose);
    socket.write(`CONNECT ${port}\n`);
  });
}
