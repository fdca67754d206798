// Converts the agent's exec result. Numbers from a guest are clamped to what JSON can represent.
import type { ExecResult, ResourceUsage as WireUsage } from '@sandboxd/proto';
import type { ErrorCode } from '../lib/errors.ts';
import { toWords } from './agent-errors.ts';
import type { ExecOutcome, ResourceUsage } from './exec-types.ts';

export function toExecOutcome(result: ExecResult): ExecOutcome {
  return {
    exitCode: Math.max(-1, Math.min(255, result.exitCode)),
    durationMs: Math.round(count(result.durationUs) / 1000),
    ...(result.signal !== '' && { signal: toWords(result.signal, 32) }),
    ...(result.timedOut && { timedOut: true }),
    ...(result.oomKilled && { oomKilled: true }),
    ...(result.error !== '' && { error: toWords(result.error) }),
    ...(result.agentUs > 0 && { agentUs: count(result.agentUs) }),
    ...(result.usage && { usage: toUsage(result.usage as WireUsage) }),
  };
}

/** The outcome of a command that never ran or whose result will never be known. */
export function failedOutcome(error: string, code: ErrorCode, startedAtMs: number): ExecOutcome {
  return { exitCode: -1, durationMs: Math.round(performance.now() - startedAtMs), error, code };
}

function toUsage(usage: WireUsage): ResourceUsage {
  return {
    cpuUserMs: Math.round(count(usage.cpuUserUs) / 1000),
    cpuSysMs: Math.round(count(usage.cpuSysUs) / 1000),
    peakMemoryBytes: count(usage.peakMemoryBytes),
    pageFaultsMajor: count(usage.pageFaultsMajor),
    contextSwitchesInvoluntary: count(usage.contextSwitchesInvoluntary),
    ioReadBytes: count(usage.ioReadBytes),
    ioWriteBytes: count(usage.ioWriteBytes),
  };
}

/** Clamps a number from a guest to a count. */
export function count(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(0, value), Number.MAX_SAFE_INTEGER) : 0;
}
