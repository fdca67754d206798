// A watch of a directory by the agent in this process, and what it reports.
import { type Channel, decodeWatchRecord, type WatchRecord } from '@sandboxd/proto';
import { type FileWatching, watchFiles } from '../../../../host-agent/src/guest/file-watch.ts';

export type WatchOptions = {
  readonly recursive?: boolean;
  readonly user?: string;
  readonly root?: string;
};

/** `onRecords` gets each batch, and the bytes to return. */
export function openWatch(
  channel: Channel,
  path: string,
  { recursive = true, user = '', root = '/' }: WatchOptions,
  onRecords: (records: readonly WatchRecord[], bytes: number) => void,
  onEnd: (reason: string) => void,
): FileWatching {
  const place = { path: Buffer.from(path, 'latin1'), root: Buffer.from(root), user };
  return watchFiles(
    { channel: withWatch(channel) },
    { place, recursive },
    {
      records: (bytes, size) => {
        const records: WatchRecord[] = [];
        for (let at = 0; bytes !== undefined && at < bytes.length; ) {
          const { record, next } = decodeWatchRecord(bytes, at);
          at = next;
          records.push(record);
        }
        onRecords(records, size);
      },
      end: onEnd,
      failed: ({ code, message }) => onEnd(`${code}: ${message}`),
    },
  );
}

/** The local agent announces no capabilities. */
function withWatch(channel: Channel): Channel {
  return new Proxy(channel, {
    get: (target, name) => {
      if (name === 'can') return () => true;
      const value = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
