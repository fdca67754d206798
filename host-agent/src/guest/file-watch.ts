// A watch of a directory in a guest: its records, checked, until the watch ends. The guest's bytes stay encoded until
// the client takes them, so a hostile guest makes no objects here.
import {
  type Channel,
  type FileWatchInput,
  FLOW,
  type Result,
  type Stream,
  WATCH,
  WATCH_END,
  WatchRecordReader,
} from '@sandboxd/proto';
import { AppError } from '../lib/errors.ts';
import { badAnswer, refusalOf, toCallError, toLossError } from './agent-errors.ts';

export type WatchEndReason = 'removed' | 'unreadable' | 'limit';

/** In order; `end` or `failed` comes exactly once and last. */
export type FileWatchEvents = {
  /** Whole records for `decodeWatchRecord`; `bytes` must be `consumed`. */
  records(records: Buffer | undefined, bytes: number): void;
  end(reason: WatchEndReason): void;
  failed(error: AppError): void;
};

export interface FileWatching {
  consumed(bytes: number): void;
  /** No event follows. */
  cancel(): void;
}

type WatchOptions = {
  readonly channel: Channel;
  readonly explainLoss?: () => Promise<string | undefined>;
};

const REASONS: ReadonlyMap<unknown, WatchEndReason> = new Map([
  [WATCH_END.REMOVED, 'removed'],
  [WATCH_END.UNREADABLE, 'unreadable'],
  [WATCH_END.TOO_MANY, 'limit'],
]);

/** AppError unsupported, guest_unreachable, exhausted. */
export function watchFiles(
  { channel, explainLoss }: WatchOptions,
  watch: FileWatchInput,
  events: FileWatchEvents,
): FileWatching {
  requireWatch(channel);
  const reader = new WatchRecordReader();
  let isOver = false;
  const over = (report: () => void): void => {
    if (isOver) return;
    isOver = true;
    report();
  };
  const onResult = (result: Result): void => {
    const refusal = refusalOf(result);
    const reason = REASONS.get(result.fileWatch?.reason);
    if (refusal !== undefined) over(() => events.failed(toCallError(refusal, 'file')));
    else if (reason === undefined) over(() => events.failed(badAnswer('no reason for the end of a watch')));
    else over(() => events.end(reason));
  };
  const open = (): Stream => {
    try {
      return channel.open(
        { fileWatch: watch },
        {
          data: (flow, chunk) => {
            if (isOver) return;
            if (flow === FLOW.out) events.records(reader.push(Buffer.from(chunk)), chunk.length);
            else stream.consumed(chunk.length);
          },
          result: onResult,
          lost: (loss) =>
            void toLossError(loss, 'files were watched', explainLoss).then((error) =>
              over(() => events.failed(error)),
            ),
        },
      );
    } catch (error) {
      throw toCallError(error, 'files');
    }
  };
  const stream = open();
  return {
    consumed: (bytes) => {
      if (!isOver && bytes > 0) stream.consumed(bytes);
    },
    cancel: () =>
      over(() => {
        stream.handlers = {};
        stream.cancel();
      }),
  };
}

/** AppError unsupported for a guest whose agent is older. */
export function requireWatch(channel: Pick<Channel, 'can'>): void {
  if (channel.can(WATCH)) return;
  const what = 'the agent of this sandbox is too old to watch files or to give them an owner';
  throw new AppError('unsupported', `${what}; create another sandbox`);
}
