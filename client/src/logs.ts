// The durable log of a sandbox, also of one that is gone.
import { Comeback } from './connection/comeback.ts';
import { pause, type Requests } from './connection/requests.ts';
import type { CallOptions, LogRecord } from './contract.ts';

const POLL_MS = 500;

export type LogOptions = CallOptions & {
  readonly source?: 'service' | 'exec' | 'all';
  /** From this byte on, 0 for all there is; the last 64 KiB by default. */
  readonly since?: number;
  /** Goes on until the loop is left, asking twice a second, over restarts of the daemon as well. */
  readonly follow?: boolean;
};

export async function* readLogs(
  requests: Requests,
  id: string,
  { source = 'all', since, follow = false, ...options }: LogOptions = {},
): AsyncGenerator<LogRecord, void> {
  const comeback = new Comeback();
  for (let from = since; ; ) {
    const query = { source, since: from };
    const page = await requests
      .ask('readLogs', { params: { id }, query, ...options })
      .catch(async (error: unknown) => {
        if (!follow) throw error;
        await comeback.wait(error, options.signal);
      });
    if (page === undefined) continue;
    comeback.answered();
    comeback.progressed();
    yield* page.records;
    // A page that says nothing new is the present.
    if (page.next_offset === from || (from === undefined && page.records.length === 0)) {
      if (!follow) return;
      await pause(POLL_MS, options.signal);
    }
    from = page.next_offset;
  }
}
