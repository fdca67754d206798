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

export function readLogs(
  requests: Requests,
  id: string,
  { source = 'all', ...options }: LogOptions = {},
): AsyncGenerator<LogRecord, void> {
  const { since: _, follow: __, ...rest } = options;
  return readPages(options, (since) =>
    requests.call('readLogs', { params: { id }, query: { source, since }, ...rest }),
  );
}

export async function* readPages<R>(
  { since, follow = false, signal }: Pick<LogOptions, 'since' | 'follow' | 'signal'>,
  read: (
    since: number | undefined,
  ) => Promise<{ readonly next_offset: number; readonly records: readonly R[] }>,
): AsyncGenerator<R, void> {
  const reconnect = new Reconnect();
  for (let from = since; ; ) {
    const page = await read(from).catch(async (error: unknown) => {
      if (!follow) throw error;
      await reconnect.wait(error, signal);
    });
    if (page === undefined) continue;
    reconnect.answered();
    reconnect.progressed();
    yield* page.records;
    // An empty page marks the current end of the log.
    if (page.next_offset === from || (from === undefined && page.records.length === 0)) {
      if (!follow) return;
      await pause(POLL_MS, signal);
    }
    from = page.next_offset;
  }
}
