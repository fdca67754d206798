// The host side of the guest's vsock: a Unix socket on which a text line requests a connection to a guest port.
import { setTimeout as sleep } from 'node:timers/promises';
import { connectLink, type SocketLink } from '../../lib/socket-link.ts';
import { deadline } from '../../lib/wait.ts';

/** Before the guest's driver is up, a request is never answered, so the first attempts are short. */
const FIRST_TRY_MS = 100;
const LONGEST_TRY_MS = 1500;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 200;
/** `OK <port>` and a line end. */
const MAX_LINE_BYTES = 32;

/** Connects to a port of the guest, and retries until a process listens there. Rejects with the signal's reason. */
export async function connectGuest(
  socketPath: string,
  port: number,
  signal: AbortSignal,
): Promise<SocketLink> {
  let tryMs = FIRST_TRY_MS;
  let pauseMs = FIRST_PAUSE_MS;
  for (;;) {
    try {
      return await tryConnect(socketPath, port, tryMs, signal);
    } catch {
      // The guest does not listen yet, or the signal fired, which the next line checks.
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    tryMs = Math.min(LONGEST_TRY_MS, tryMs * 1.5);
    pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
  }
}

/** One attempt. Rejects if the guest does not listen (the connection then closes without an answer) or on timeout. */
export async function tryConnect(
  socketPath: string,
  port: number,
  timeoutMs: number,
  outer?: AbortSignal,
): Promise<SocketLink> {
  using limit = deadline(timeoutMs, () => new Error(`no answer within ${timeoutMs} ms`), outer);
  const link = await connectLink(socketPath, limit.signal);
  try {
    await shakeHands(link, port, limit.signal);
    return link;
  } catch (error) {
    link.destroy();
    throw error;
  }
}

async function shakeHands(link: SocketLink, port: number, signal: AbortSignal): Promise<void> {
  link.write([Buffer.from(`CONNECT ${port}\n`)]);
  const line = await link.takeLine(MAX_LINE_BYTES, signal);
  if (line === undefined && link.isOver) throw new Error(`nobody listens on port ${port} of the guest`);
  if (line === undefined || !/^OK \d+$/.test(line))
    throw new Error('the VMM did not answer a connection request with OK');
}
