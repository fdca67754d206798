// The status of a command as JSON, and the forms of its stored output.
import { isUtf8 } from 'node:buffer';
import { type CommandBody, type CommandLine, EXEC_FRAME, execFrameHeader } from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import type { CommandEnd, CommandInfo } from '../../guest/command-info.ts';
import type { OutputForm } from '../routes/service.ts';
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
