// The stored log of a sandbox, even a deleted one.
import { Reconnect } from './connection/reconnect.ts';
import { pause, type Requests } from './connection/requests.ts';
import type { CallOptions, LogRecord } from './contract.ts';

const POLL_MS = 500;

export type LogOptions = CallOptions & {
  readonly source?: 'service' | 'exec' | 'all';
  /** Byte offset of the first record, 0 for the whole log; default: the last 64 KiB. */
  readonly since?: number;
  /** Polls twice a second until the loop ends, also across restarts of the daemon. */
  readonly follow?: boolean;
};

export async function* readLogs(
  requests: Requests,
  id: string,
  { source = 'all', since, follow = false, ...options }: LogOptions = {},
): AsyncGenerator<LogRecord, void> {
  const reconnect = new Reconnect();
  for (let from = since; ; ) {
    const query = { source, since: from };
    const page = await requests
      .call('readLogs', { params: { id }, query, ...options })
      .catch(async (error: unknown) => {
        if (!follow) throw error;
        await reconnect.wait(error, options.signal);
      });
    if (page === undefined) continue;
    reconnect.answered();
    reconnect.progressed();
    yield* page.records;
    // An empty page marks the current end of the log.
    if (page.next_offset === from || (from === undefined && page.records.length === 0)) {
      if (!follow) return;
      await pause(POLL_MS, options.signal);
    }
    from = page.next_offset;
  }
}
