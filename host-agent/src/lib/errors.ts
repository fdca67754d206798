// Errors of host-agent operations: a code of the interface's catalogue, and a message for the client.
import type { ErrorCode } from '@sandboxd/api';

export type { ErrorCode };

type ErrorDetails = {
  /** The step of a longer operation that failed, e.g. `boot`. */
  readonly stage?: string;
  /** The failure is a timeout. */
  readonly isTimeout?: true;
  /** Seconds after which the client should retry. */
  readonly retryAfterS?: number;
};

/**
 * A failure with a message for the client: a lower-case sentence that says what failed, the value found and what to do.
 * The message must not contain secrets; `cause` is for the log.
 */
export class AppError extends Error {
  override readonly name = 'AppError';
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails & { cause?: unknown } = {}) {
    const { cause, ...rest } = details;
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.details = rest;
  }
}

export function isAppError(value: unknown): value is AppError {
  return value instanceof AppError;
}

/** Converts a thrown value to an Error. */
export function toError(value: unknown): Error {
  return value instanceof Error ? value : new Error(String(value));
}

/** The first line of a message; further lines are for the log only. */
export function firstLine(value: unknown): string {
  return toError(value).message.split('\n', 1)[0] ?? '';
}

const MAX_CAUSES = 16;

/** The thrown value, its cause, the cause's cause, … */
export function causesOf(value: unknown): unknown[] {
  const causes: unknown[] = [];
  for (let at = value; at !== undefined && causes.length < MAX_CAUSES; ) {
    causes.push(at);
    at = at instanceof Error ? at.cause : undefined;
  }
  return causes;
}

/** The `code` of a system error such as ENOENT, or undefined. */
export function errnoOf(value: unknown): string | undefined {
  return value instanceof Error && 'code' in value && typeof value.code === 'string' ? value.code : undefined;
}
