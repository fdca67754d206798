// A watch of a guest that is armed, has these records, and ends.
import { writeWatchRecord } from '@sandboxd/proto';
import type { GuestFiles } from '../../host-agent/src/guest/files.ts';

type Records = readonly Parameters<typeof writeWatchRecord>[2][];

export function watchOf(records: Records): GuestFiles['watch'] {
  return (_watch, events) => {
    queueMicrotask(() => {
      for (const record of [{ type: 'armed', directories: 1 } as const, ...records]) {
        const bytes = Buffer.alloc(9000);
        const length = writeWatchRecord(bytes, 0, record);
        events.records(bytes.subarray(0, length), length);
      }
      events.end('removed');
    });
    return { consumed: () => undefined, cancel: () => undefined };
  };
}
