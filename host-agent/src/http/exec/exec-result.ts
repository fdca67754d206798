// The ExecResult in the exit frame: exit code and duration, and the other fields if they have a value.
import { EXEC_FRAME, encodeExecFrame, MAX_EXEC_PAYLOAD_BYTES } from '@sandboxd/api';
import type { ExecOutcome, ResourceUsage } from '../../guest/exec-types.ts';
import type { ErrorAnswer } from '../errors.ts';

/** Maximum length of `error`, far below the maximum size of a frame. */
const MAX_ERROR_CHARS = MAX_EXEC_PAYLOAD_BYTES / 16;

export function toExecResultBody(outcome: ExecOutcome) {
  const { exitCode, durationMs, signal, timedOut, oomKilled, error, code, usage } = outcome;
  return {
    exit_code: exitCode,
    duration_ms: Math.round(durationMs),
    ...(signal ? { signal } : {}),
    ...(timedOut ? { timed_out: true as const } : {}),
    ...(oomKilled ? { oom_killed: true as const } : {}),
    ...(error ? { error: error.slice(0, MAX_ERROR_CHARS), ...(code && { code }) } : {}),
    ...(usage ? { usage: toUsageBody(usage) } : {}),
  };
}

/** `warnings` name the unknown fields of the request. */
export function encodeExitFrame(outcome: ExecOutcome, warnings: readonly string[] = []): Buffer {
  const result = { ...toExecResultBody(outcome), ...(warnings.length > 0 && { warnings }) };
  return encodeExecFrame(EXEC_FRAME.exit, Buffer.from(JSON.stringify(result)));
}

/** An error frame, for errors after the response head was sent. */
export function encodeErrorFrame(body: ErrorAnswer['body']): Buffer {
  return encodeExecFrame(EXEC_FRAME.error, Buffer.from(JSON.stringify(body)));
}

/** The next record of the output of a detached command, and what was dropped before it. */
export function encodePositionFrame(
  seq: number,
  dropped?: { readonly records: number; readonly bytes: number },
): Buffer {
  const body = {
    seq,
    ...(dropped && { dropped_records: dropped.records, dropped_bytes: dropped.bytes }),
  };
  return encodeExecFrame(EXEC_FRAME.position, Buffer.from(JSON.stringify(body)));
}

function toUsageBody(usage: ResourceUsage) {
  return {
    cpu_user_ms: Math.round(usage.cpuUserMs),
    cpu_sys_ms: Math.round(usage.cpuSysMs),
    peak_memory_bytes: usage.peakMemoryBytes,
    page_faults_major: usage.pageFaultsMajor,
    context_switches_involuntary: usage.contextSwitchesInvoluntary,
    io_read_bytes: usage.ioReadBytes,
    io_write_bytes: usage.ioWriteBytes,
  };
}
