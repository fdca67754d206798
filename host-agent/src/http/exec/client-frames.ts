// Parses the signal and resize frames of a client.
import { type ExecFrame, MAX_TTY_CELLS, SIGNALS, show } from '@sandboxd/api';
import type { ExecSession } from '../../guest/exec-types.ts';
import { isNestedTooDeep } from '../input/json-depth.ts';

type TtySize = Parameters<ExecSession['resize']>[0];

/** The value of a frame, or why it is invalid. */
export type Read<T> = { readonly value: T } | { readonly problem: string };

/** Name of a Linux signal. */
export function readSignal({ payload }: ExecFrame): Read<string> {
  const { signal } = readFields(payload);
  const known = SIGNALS.find((name) => name === signal);
  if (known !== undefined) return { value: known };
  const word = typeof signal === 'string' ? signal.toUpperCase() : '';
  const [similar] = SIGNALS.filter((name) => name === word || name === `SIG${word}`);
  const hint = similar === undefined ? '' : `; did you mean ${similar}?`;
  return {
    problem: `signal must be a Linux signal, such as SIGTERM, got ${show(signal)}${hint}`,
  };
}

export function readSize({ payload }: ExecFrame): Read<TtySize> {
  const { cols, rows } = readFields(payload);
  if (isExtent(cols) && isExtent(rows)) return { value: { cols, rows } };
  const sent = `${show(cols)} and ${show(rows)}`;
  return { problem: `cols and rows must be integers from 1 to ${MAX_TTY_CELLS}, got ${sent}` };
}

function readFields(payload: Buffer): { readonly [name: string]: unknown } {
  if (isNestedTooDeep(payload)) return {};
  try {
    return { ...JSON.parse(payload.toString()) };
  } catch {
    return {};
  }
}

function isExtent(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) > 0 && Number(value) <= MAX_TTY_CELLS;
}
