// Output without a reader: read and discarded, so that a background process neither blocks nor gets SIGPIPE.
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller } from '../native/poller.ts';

const READ_BYTES = 65_536;
/** Bytes read before a pause, so that a process that writes continuously does not keep the agent busy. */
const BURST_BYTES = 1024 * 1024;
const PAUSE_MS = 10;

let scratch: Buffer | undefined;

/** Takes ownership of the descriptor and closes it when its last writer is gone. */
export function discardOutput(poller: Poller, fd: number): void {
  const read = (): void => {
    scratch ??= Buffer.allocUnsafeSlow(READ_BYTES);
    for (let total = 0; total < BURST_BYTES; total += READ_BYTES) {
      const got = readOrEnd(fd, scratch);
      if (got === NOT_NOW) return;
      if (got === 0) {
        watch.close();
        addon.close(fd);
        return;
      }
    }
    setTimeout(read, PAUSE_MS);
  };
  const watch = poller.watch(fd, POLL.in | POLL.edge, read);
}

function readOrEnd(fd: number, buffer: Buffer): number {
  try {
    return addon.read(fd, buffer, 0, buffer.length);
  } catch {
    return 0;
  }
}
