// The status of a command as JSON, and the forms of its stored output.
import { isUtf8 } from 'node:buffer';
import {
  type CommandBody,
  type CommandLine,
  EXEC_FRAME,
  ExecFrameDecoder,
  type ExecOutput,
  type ExecPiece,
  execFrameHeader,
} from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import type { CommandEnd, CommandInfo } from '../../guest/command-info.ts';
import type { Chunk, PullStream } from '../../lib/byte-queue.ts';
import { joinText, NOTHING, unfinishedBytes } from '../../lib/utf8-joiner.ts';
import type { OutputForm } from '../output-stream.ts';
import { encodeExitFrame, toExecResultBody } from './exec-run.ts';

/** Reconnection time of server-sent events. */
const RETRY_MS = 1000;

export function toCommandBody(info: CommandInfo): CommandBody {
  const { id, cmd, isCmdCut, isDetached, hasStdin, pid, tty, startedUnixMs, outcome, endedUnixMs, output } =
    info;
  return {
    id,
    state: outcome === undefined ? 'running' : 'exited',
    cmd: [...cmd],
    ...(isCmdCut && { cmd_truncated: true as const }),
    detached: isDetached,
    ...(pid !== undefined && { pid }),
    ...(hasStdin && { stdin: true as const }),
    ...(tty && { tty }),
    started_at: toTime(startedUnixMs),
    ...(endedUnixMs !== undefined && { exited_at: toTime(endedUnixMs) }),
    ...(outcome && { result: toExecResultBody(outcome) as CommandBody['result'] }),
    ...(output && {
      output: {
        first_seq: output.firstSeq,
        next_seq: output.nextSeq,
        dropped_bytes: output.droppedBytes,
      },
    }),
  };
}

/** A stderr frame reports dropped output. */
export function asCommandFrames(): OutputForm<CommandEnd> {
  return {
    render(record) {
      if (record.kind === 'ring') return [];
      if (record.kind === 'output')
        return [execFrameHeader(EXEC_FRAME[record.stream], record.data.length), record.data];
      const notice = Buffer.from(`\n[sandboxd: ${record.bytes} bytes of output were dropped here]\n`);
      return [execFrameHeader(EXEC_FRAME.stderr, notice.length), notice];
    },
    finish: ({ info: { outcome } }) => (outcome === undefined ? [] : [encodeExitFrame(outcome)]),
    keepalive: execFrameHeader(EXEC_FRAME.stdout, 0),
  };
}

export function asCommandLines(): OutputForm<CommandEnd> {
  return {
    render: (record) => (record.kind === 'ring' ? [] : [Buffer.from(`${JSON.stringify(toLine(record))}\n`)]),
    finish: (end) => [Buffer.from(`${JSON.stringify(toLastLine(end))}\n`)],
    keepalive: Buffer.from('\n'),
  };
}

/** Server-sent events. Their id is the number of the last record, and the last one is of the type `end`. */
export function asCommandEvents(): OutputForm<CommandEnd> {
  const toMessage = (next: number, line: CommandLine, type = ''): Buffer => {
    const id = next > 0 ? `id: ${next - 1}\n` : '';
    return Buffer.from(`${type}${id}data: ${JSON.stringify(line)}\n\n`);
  };
  return {
    render(record) {
      if (record.kind === 'ring') return [Buffer.from(`retry: ${RETRY_MS}\n\n`)];
      return [toMessage(record.kind === 'output' ? record.seq + 1 : record.seq, toLine(record))];
    },
    finish: (end) => [toMessage(end.nextSeq, toLastLine(end), 'event: end\n')],
    keepalive: Buffer.from(':\n\n'),
  };
}

function toLine(record: Exclude<ServiceRecord, { kind: 'ring' }>): CommandLine {
  const { seq } = record;
  if (record.kind === 'gap') return { seq, dropped_records: record.records, dropped_bytes: record.bytes };
  const { stream, unixMs, data } = record;
  const isText = isUtf8(data);
  return {
    seq,
    stream,
    unix_ms: unixMs,
    data: data.toString(isText ? 'utf8' : 'base64'),
    ...(!isText && { base64: true as const }),
  };
}

function toLastLine({ nextSeq, info }: CommandEnd): CommandLine {
  const { state, result } = toCommandBody(info);
  return { seq: nextSeq, state, ...(result && { result }) };
}

function toTime(unixMs: number): string {
  return new Date(unixMs).toISOString();
}

// The output of a non-interactive exec as JSON, for clients without a frame decoder.

type Stream = 'stdout' | 'stderr';

/** The first bytes of a stream, up to a limit. */
class OutputHead {
  readonly #maxBytes: number;
  readonly #chunks: Buffer[] = [];
  #sizeBytes = 0;
  isTruncated = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  push(payload: Buffer): void {
    const left = this.#maxBytes - this.#sizeBytes;
    if (payload.length > left) this.isTruncated = true;
    if (left === 0 || payload.length === 0) return;
    // A copy, because the payload may be a view of a buffer that is reused.
    const chunk = Buffer.from(payload.subarray(0, left));
    this.#sizeBytes += chunk.length;
    this.#chunks.push(chunk);
  }

  /** Drops an incomplete character at the end, which would otherwise force base64. */
  toText(): { readonly text: string; readonly isBase64: boolean } {
    const all = Buffer.concat(this.#chunks);
    return toText(this.isTruncated ? all.subarray(0, all.length - unfinishedBytes(all)) : all);
  }
}

/** Reads all frames and stores at most `maxBytes` of each stream. Rejects if `frames` rejects. */
export async function collectOutput(frames: PullStream, maxBytes: number): Promise<ExecOutput> {
  const streams = { stdout: new OutputHead(maxBytes), stderr: new OutputHead(maxBytes) };
  const decoder = new ExecFrameDecoder();
  let result: unknown;
  for (let chunk = await frames.next(); chunk !== undefined; chunk = await frames.next()) {
    for (const { type, payload } of decoder.push(chunk.bytes)) {
      if (type === EXEC_FRAME.exit) result = JSON.parse(payload.toString());
      else streams[toStream(type)].push(payload);
    }
    chunk.release();
  }
  const [stdout, stderr] = [streams.stdout.toText(), streams.stderr.toText()];
  return {
    stdout: stdout.text,
    stderr: stderr.text,
    ...(stdout.isBase64 && { stdout_base64: true as const }),
    ...(stderr.isBase64 && { stderr_base64: true as const }),
    ...(streams.stdout.isTruncated && { stdout_truncated: true as const }),
    ...(streams.stderr.isTruncated && { stderr_truncated: true as const }),
    ...(result as Pick<ExecOutput, 'exit_code' | 'duration_ms'>),
  };
}

/** Converts frames to JSON lines, with backpressure. */
export class OutputLines implements PullStream {
  readonly #frames: PullStream;
  readonly #decoder = new ExecFrameDecoder();
  /** Incomplete characters at the end of each stream. */
  readonly #partial: Record<Stream, Buffer> = { stdout: NOTHING, stderr: NOTHING };

  constructor(frames: PullStream) {
    this.#frames = frames;
  }

  async next(): Promise<Chunk | undefined> {
    for (;;) {
      const chunk = await this.#frames.next();
      if (chunk === undefined) return undefined;
      const lines = this.#decoder
        .push(chunk.bytes)
        .flatMap(({ type, payload }) => this.#toLines(type, payload));
      if (lines.length > 0) {
        const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
        return { bytes, release: () => chunk.release() };
      }
      chunk.release();
    }
  }

  cancel(): void {
    this.#frames.cancel();
  }

  keepalive(): void {
    this.#frames.keepalive?.();
  }

  #toLines(type: number, payload: Buffer): ExecPiece[] {
    if (type === EXEC_FRAME.exit)
      return [...this.#flushPartial(), { result: JSON.parse(payload.toString()) }];
    const stream = toStream(type);
    const { whole, held } = joinText(this.#partial[stream], payload);
    this.#partial[stream] = held;
    return whole.length > 0 || payload.length === 0 ? [toChunkLine(stream, whole)] : [];
  }

  #flushPartial(): ExecPiece[] {
    return (['stdout', 'stderr'] as const)
      .filter((stream) => this.#partial[stream].length > 0)
      .map((stream) => toChunkLine(stream, this.#partial[stream]));
  }
}

function toChunkLine(stream: Stream, bytes: Buffer): ExecPiece {
  const { text, isBase64 } = toText(bytes);
  return { stream, data: text, ...(isBase64 && { base64: true as const }) };
}

function toText(bytes: Buffer): { text: string; isBase64: boolean } {
  const isBase64 = !isUtf8(bytes);
  return { text: bytes.toString(isBase64 ? 'base64' : 'utf8'), isBase64 };
}

function toStream(type: number): Stream {
  return type === EXEC_FRAME.stderr ? 'stderr' : 'stdout';
}
