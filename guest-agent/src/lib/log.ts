// The agent's log: written to the kernel log, which the guest's console shows and `dmesg` stores.
import { openSync, writeSync } from 'node:fs';

let kmsgFd: number | undefined;

export function logError(what: string, cause: unknown): void {
  const text = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
  // One record per write. A record holds about 1,000 bytes.
  for (const line of `${what}: ${text}`.split('\n').slice(0, 12))
    write(`<3>sandbox-agent: ${line.slice(0, 900)}\n`);
}

function write(line: string): void {
  try {
    kmsgFd ??= openSync('/dev/kmsg', 'w');
    writeSync(kmsgFd, line);
  } catch {
    // The log itself failed, so the message is lost.
  }
}
