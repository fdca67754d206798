// Files in and out over a channel: the host's side of the agent's FilePush, FilePull and DirPull calls.
import {
  AgentError,
  type AgentErrorCode,
  type Channel,
  type FileInfo,
  type FilePushResult,
  FLOW,
  type RequestInput,
  type Result,
  type Stream,
  type StreamLoss,
  toAgentErrorCode,
} from '@sandboxd/proto';
import type { Outflow } from '../lib/byte-queue.ts';
import { AppError, type ErrorCode, toError } from '../lib/errors.ts';
import { PullBody } from './pull-body.ts';

/** Longest reason of a guest that is passed on. */
const MAX_MESSAGE = 4096;

export type PushResult = { readonly files: number; readonly bytes: number };

export type PulledFile = {
  /** Length of the file; absent when only reading it to its end would tell. */
  readonly sizeBytes?: number;
  /** Bytes that `body` gives, when that is known. */
  readonly contentBytes?: number;
  /** Errors when the guest cannot go on; cancel it to stop. */
  readonly body: Outflow;
};

export type FileCallOptions = {
  readonly channel: Channel;
  /** Why the channel may have broken. */
  readonly explainLoss?: () => Promise<string | undefined>;
  readonly signal?: AbortSignal;
};

/** The bytes to send: each call gives some, undefined at the end. What it rejects with ends the push. */
export type ByteSource = () => Promise<Uint8Array | undefined>;

/** Sends an archive that the guest unpacks beneath `path`. AppError with the guest's reason, or the signal's. */
export function pushFiles(options: FileCallOptions, path: string, read: ByteSource): Promise<PushResult> {
  return new Promise<PushResult>((resolve, reject) => {
    let chunk: Uint8Array | undefined;
    let isReading = false;
    let isOver = false;
    const settle = (finish: () => void): void => {
      if (isOver) return;
      isOver = true;
      options.signal?.removeEventListener('abort', onAbort);
      finish();
    };
    const stop = (reason: unknown): void =>
      settle(() => {
        cancel(stream);
        reject(reason);
      });
    const onAbort = (): void => stop(options.signal?.reason);
    const stream = open(
      options,
      { filePush: { path } },
      {
        result: (result) =>
          settle(() => {
            const { error, filePush } = result;
            if (error || !filePush) reject(toAppError(result, true));
            else resolve(toPushResult(filePush as FilePushResult));
          }),
        lost: (loss) =>
          void lossError(options, loss, 'files were pushed').then((error) => settle(() => reject(error))),
      },
    );
    /** One chunk is read ahead of the one that is being sent. */
    const readNext = (): void => {
      if (isReading || isOver) return;
      isReading = true;
      read().then(
        (bytes) => {
          isReading = false;
          if (isOver) return;
          if (bytes === undefined) stream.end(FLOW.in);
          else if (bytes.length === 0) readNext();
          else {
            chunk = bytes;
            stream.ready(FLOW.in);
          }
        },
        (error: unknown) => stop(error),
      );
    };
    stream.setSource(FLOW.in, (maxBytes) => {
      if (chunk === undefined) {
        readNext();
        return null;
      }
      const bytes = chunk.subarray(0, maxBytes);
      chunk = bytes.length === chunk.length ? undefined : chunk.subarray(bytes.length);
      return bytes;
    });
    if (options.signal?.aborted) onAbort();
    else {
      options.signal?.addEventListener('abort', onAbort, { once: true });
      readNext();
    }
  });
}

/** The content of one file, at most `maxBytes` of it. AppError with the guest's reason. */
export function pullFile(options: FileCallOptions, path: string, maxBytes: number): Promise<PulledFile> {
  return pull(options, { filePull: { path, maxBytes } }, 'a file was pulled', maxBytes);
}

/** A directory as a tar archive. AppError with the guest's reason. */
export function pullDirectory(options: FileCallOptions, path: string): Promise<PulledFile> {
  return pull(options, { dirPull: { path } }, 'a directory was pulled', Number.POSITIVE_INFINITY);
}

function pull(
  options: FileCallOptions,
  request: RequestInput,
  what: string,
  maxBytes: number,
): Promise<PulledFile> {
  const { signal } = options;
  let hasStarted = false;
  return new Promise<PulledFile>((resolve, reject) => {
    const onAbort = (): void => {
      cancel(stream);
      reject(signal?.reason);
    };
    const body = new PullBody({
      consumed: (bytes) => stream.consumed(bytes),
      cancel: () => cancel(stream),
    });
    const fail = (error: Error): void => {
      signal?.removeEventListener('abort', onAbort);
      reject(error);
      body.fail(error);
    };
    const stream = open(options, request, {
      started: (_pid, file) => {
        signal?.removeEventListener('abort', onAbort);
        hasStarted = true;
        const info = file === undefined ? {} : toFileInfo(file, maxBytes);
        body.expect(info.contentBytes, maxBytes);
        resolve({ ...info, body });
      },
      data: (_flow, bytes) => body.push(bytes),
      result: (result) => {
        if (result.error || !(result.filePull || result.dirPull) || !hasStarted)
          fail(toAppError(result, false));
        else body.end();
      },
      lost: (loss) => void lossError(options, loss, what).then(fail),
    });
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function open({ channel }: FileCallOptions, request: RequestInput, handlers: Stream['handlers']): Stream {
  try {
    return channel.open(request, handlers);
  } catch (error) {
    if (error instanceof RangeError)
      throw new AppError('invalid_argument', 'the path is too long', { cause: error });
    if (error instanceof AgentError) throw toCallError(error.code, error.message, false);
    throw new AppError('guest_unreachable', `the guest agent cannot be reached: ${toError(error).message}`, {
      cause: error,
    });
  }
}

/** The guest stops; what it still sends is dropped. */
function cancel(stream: Stream): void {
  if (stream.isOver) return;
  stream.handlers = { data: (_flow, bytes) => stream.consumed(bytes.length) };
  stream.cancel();
}

function toFileInfo(file: FileInfo, maxBytes: number): { sizeBytes?: number; contentBytes?: number } {
  if (!file.isSizeKnown) return {};
  const sizeBytes = count(file.sizeBytes);
  return { sizeBytes, contentBytes: Math.min(count(file.contentBytes), sizeBytes, maxBytes) };
}

function toPushResult({ files, bytes }: FilePushResult): PushResult {
  return { files: count(files), bytes: count(bytes) };
}

/** Numbers from a guest, clamped to what JSON can hold. */
function count(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(0, value), Number.MAX_SAFE_INTEGER) : 0;
}

function toAppError({ error }: Result, isPush: boolean): AppError {
  if (!error) return new AppError('guest_unreachable', 'the guest agent gave an answer to another question');
  return toCallError(toAgentErrorCode(error.code ?? ''), error.message ?? '', isPush);
}

/** What a push names is the archive's content: nothing of it can be "not found". */
function toCallError(code: AgentErrorCode, message: string, isPush: boolean): AppError {
  const known: Partial<Record<AgentErrorCode, ErrorCode>> = {
    not_found: isPush ? 'invalid_argument' : 'not_found',
    busy: 'exhausted',
    cancelled: 'cancelled',
    unsupported: 'unsupported',
    internal: 'internal',
  };
  return new AppError(known[code] ?? 'invalid_argument', message.slice(0, MAX_MESSAGE) || 'no reason given');
}

/** A VM that died is our failure, a silent agent one of reaching it. */
async function lossError(
  { explainLoss }: FileCallOptions,
  loss: StreamLoss,
  what: string,
): Promise<AppError> {
  const reason = await explainLoss?.();
  if (reason !== undefined)
    return new AppError(
      'internal',
      `the sandbox died while ${what}: ${reason}; delete it and create another`,
    );
  const seen = loss.kind === 'lost' ? loss.cause.message : `its connection was ${loss.kind}`;
  return new AppError('guest_unreachable', `the guest agent was lost while ${what}: ${seen}`);
}
