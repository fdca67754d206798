// File transfers over a channel: the host's side of the agent's FilePush, FilePull and DirPull calls.
import {
  ATTRIBUTES,
  type Channel,
  FILE_ENTRIES,
  type FileCallInput,
  type FileCallResult,
  type FileEntry,
  type FileInfo,
  type FilePushResult,
  type FileReadInput,
  type FileWatchInput,
  type FileWriteInput,
  FLOW,
  MAX_FILE_ATTRIBUTES,
  ProtocolViolation,
  type RequestInput,
  type Result,
  type Stream,
} from '@sandboxd/proto';
import type { PullStream } from '../lib/byte-queue.ts';
import { AppError, toError } from '../lib/errors.ts';
import { badAnswer, count, refusalOf, toCallError, toLossError } from './agent-errors.ts';
import { type FileDescription, type ListOptions, toDescription, toDescriptions } from './file-description.ts';
import { type FileWatchEvents, type FileWatching, requireWatch } from './file-watch.ts';
import { PullBody } from './pull-body.ts';

export type PushResult = { readonly files: number; readonly bytes: number };

export type PulledFile = {
  /** Length of the file; absent if it can only be found by reading to the end. */
  readonly sizeBytes?: number;
  /** Number of bytes of `body`, if known. */
  readonly contentBytes?: number;
  /** Position of its first byte in the file, for a part of one. */
  readonly offsetBytes?: number;
  /** For a part of a file. */
  readonly entry?: FileDescription;
  /** Rejects if the guest fails; cancel it to stop. */
  readonly body: PullStream;
};

export type ReadFile = PulledFile & { readonly entry: FileDescription };

export type FileCallAnswer = {
  readonly entry?: FileDescription;
  readonly entries: readonly FileDescription[];
  readonly hasMore: boolean;
  readonly count: number;
};

/**
 * File transfers; paths are absolute paths in the guest. AppError guest_unreachable, otherwise invalid_argument with
 * the guest's reason. Aborted by `signal`.
 */
export interface GuestFiles {
  /** One operation on single files. AppError also conflict. */
  call(call: FileCallInput, signal?: AbortSignal): Promise<FileCallAnswer>;
  /** A part of a file's content. */
  read(read: FileReadInput, signal?: AbortSignal): Promise<ReadFile>;
  /** Replaces a file's content. AppError also precondition_failed. */
  write(write: FileWriteInput, read: ByteSource, signal?: AbortSignal): Promise<FileDescription>;
  /** Extracts a tar archive into `path`. `owner`, as name|uid[:group|gid], owns what is created; default: root. */
  pushFiles(path: string, read: ByteSource, signal?: AbortSignal, owner?: string): Promise<PushResult>;
  pullFile(path: string, maxBytes: number, signal?: AbortSignal): Promise<PulledFile>;
  /** A tar archive of the directory. */
  pullDirectory(path: string, signal?: AbortSignal): Promise<PulledFile>;
  /** Changes in a directory from now on. AppError also exhausted, unsupported; others come as events. */
  watch(watch: FileWatchInput, events: FileWatchEvents): FileWatching;
}

export type FileCallOptions = {
  readonly channel: Channel;
  /** Why the channel may have broken. */
  readonly explainLoss?: () => Promise<string | undefined>;
  readonly signal?: AbortSignal;
};

/** The bytes to send: each call returns some, undefined at the end. A rejection aborts the push. */
export type ByteSource = () => Promise<Uint8Array | undefined>;

/** Sends an archive that the guest extracts into `path`. AppError with the guest's reason, or the signal's. */
export async function pushFiles(
  options: FileCallOptions,
  path: string,
  read: ByteSource,
  owner = '',
): Promise<PushResult> {
  if (owner !== '') requireWatch(options.channel);
  return send(options, { filePush: { path, owner } }, read, (result) => {
    if (!result.filePush) throw toFailure(result, 'push');
    return toPushResult(result.filePush as FilePushResult);
  });
}

/** Sends the new content of a file. AppError with the guest's reason, or the signal's. */
export async function writeFile(
  options: FileCallOptions,
  write: FileWriteInput,
  read: ByteSource,
): Promise<FileDescription> {
  if (write.attributes?.length) requireAttributes(options.channel);
  return await send(options, { fileWrite: write }, read, (result) => toEntry(result));
}

/** One operation on single files. AppError with the guest's reason, or the signal's. */
export async function callFiles(options: FileCallOptions, call: FileCallInput): Promise<FileCallAnswer> {
  if (call.change?.attributes?.length) requireAttributes(options.channel);
  return await callOnce(options, call);
}

function callOnce(options: FileCallOptions, call: FileCallInput): Promise<FileCallAnswer> {
  return new Promise((resolve, reject) => {
    const { signal } = options;
    const onAbort = (): void => {
      cancel(stream);
      reject(signal?.reason);
    };
    const settle = (finish: () => void): void => {
      signal?.removeEventListener('abort', onAbort);
      finish();
    };
    const stream = open(
      options,
      { fileCall: call },
      {
        result: (result) =>
          settle(() => {
            if (!result.fileCall) return reject(toFailure(result, 'file'));
            try {
              resolve(toAnswer(result.fileCall as FileCallResult, call));
            } catch (error) {
              reject(badAnswer(toError(error).message));
              throw error;
            }
          }),
        lost: (loss) =>
          void toLossError(loss, 'it worked on files', options.explainLoss).then((error) =>
            settle(() => reject(error)),
          ),
      },
    );
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort);
  });
}

/** AppError unsupported for a guest whose agent is older. */
function requireAttributes(channel: Channel): void {
  if (channel.can(ATTRIBUTES)) return;
  const what = 'the agent of this sandbox is too old to set extended attributes of files';
  throw new AppError('unsupported', `${what}; create another sandbox`);
}

/** Sends the bytes of `read`, until the guest has answered. `toValue` throws what the answer means. */
function send<T>(
  options: FileCallOptions,
  request: RequestInput,
  read: ByteSource,
  toValue: (result: Result) => T,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let chunk: Uint8Array | undefined;
    let isOver = false;
    const settle = (finish: () => void): void => {
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
    const stream = open(options, request, {
      result: (result) =>
        settle(() => {
          try {
            resolve(toValue(result));
          } catch (error) {
            reject(error);
          }
        }),
      lost: (loss) =>
        void toLossError(loss, 'files were pushed', options.explainLoss).then((error) =>
          settle(() => reject(error)),
        ),
    });
    /** Only one read of the source is pending at a time. */
    const readNext = (): void => {
      if (isOver) return;
      read().then(
        (bytes) => {
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
      options.signal?.addEventListener('abort', onAbort);
      readNext();
    }
  });
}

/** The content of one file, at most `maxBytes`. AppError with the guest's reason. */
export function pullFile(options: FileCallOptions, path: string, maxBytes: number): Promise<PulledFile> {
  return pull(options, { filePull: { path, maxBytes } }, 'a file was pulled', maxBytes);
}

/** A part of a file. AppError with the guest's reason. */
export async function readFile(options: FileCallOptions, read: FileReadInput): Promise<ReadFile> {
  const file = await pull(options, { fileRead: read }, 'a file was read', Number.POSITIVE_INFINITY);
  if (file.entry !== undefined) return { ...file, entry: file.entry };
  file.body.cancel();
  throw badAnswer('no description of the file');
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
      data: (_flow, bytes) => {
        // They would be in addition to the announced length.
        if (!hasStarted) throw new ProtocolViolation('bytes of a file before its description');
        body.push(bytes);
      },
      result: (result) => {
        if (!(result.filePull || result.dirPull) || !hasStarted) fail(toFailure(result, 'file'));
        else body.end();
      },
      lost: (loss) => void toLossError(loss, what, options.explainLoss).then(fail),
    });
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort);
  });
}

function open({ channel }: FileCallOptions, request: RequestInput, handlers: Stream['handlers']): Stream {
  try {
    return channel.open(request, handlers);
  } catch (error) {
    throw toCallError(error, 'files');
  }
}

/** The guest stops sending; bytes that are on their way are dropped. */
function cancel(stream: Stream): void {
  stream.handlers = {};
  stream.cancel();
}

function toFileInfo(file: FileInfo, maxBytes: number): Omit<PulledFile, 'body'> {
  const entry = file.entry && { entry: toDescription(file.entry as FileEntry) };
  if (!file.isSizeKnown) return { ...entry };
  const sizeBytes = count(file.sizeBytes);
  const contentBytes = Math.min(count(file.contentBytes), sizeBytes, maxBytes);
  const offset = entry && { offsetBytes: Math.min(count(file.offsetBytes), sizeBytes), ...entry };
  return { sizeBytes, contentBytes, ...offset };
}

/** Throws ProtocolViolation for a list that cannot be the answer to this call. */
function toAnswer(
  { entry, entries, hasMore, count: counted }: FileCallResult,
  { list: wanted, stat }: FileCallInput,
): FileCallAnswer {
  const list: ListOptions = wanted ?? {};
  const maxAttributes = stat?.attributes ? MAX_FILE_ATTRIBUTES : 0;
  return {
    ...(entry && { entry: toDescription(entry as FileEntry, maxAttributes) }),
    entries: toDescriptions(FILE_ENTRIES.decode(entries, list.maxEntries ?? 0), list),
    hasMore,
    count: count(counted),
  };
}

function toEntry(result: Result): FileDescription {
  if (!result.fileCall) throw toFailure(result, 'file');
  const { entry } = toAnswer(result.fileCall as FileCallResult, {});
  if (entry === undefined) throw badAnswer('no description of the file');
  return entry;
}

function toPushResult({ files, bytes }: FilePushResult): PushResult {
  return { files: count(files), bytes: count(bytes) };
}

function toFailure(result: Result, kind: 'file' | 'files' | 'push'): Error {
  const refusal = refusalOf(result);
  return refusal ? toCallError(refusal, kind) : badAnswer('an answer to another question');
}
