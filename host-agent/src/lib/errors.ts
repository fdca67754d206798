// What operations of the host agent fail with: a code of the interface's catalogue, and a message for the caller.
import type { ErrorCode } from '@sandboxd/api';

export type { ErrorCode };

export type ErrorDetails = {
  /** Which step of a longer operation failed, e.g. `boot`. */
  readonly stage?: string;
  /** Nothing was wrong but the time that it took. */
  readonly isTimeout?: true;
  /** Seconds after which another try makes sense. */
  readonly retryAfterS?: number;
};

/**
 * A failure with a message for the caller: a lower-case sentence that says what failed, the value seen and what to do.
 * The message must not hold secrets; `cause` is for the log.
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

/** The thrown value as an Error. */
export function toError(value: unknown): Error {
  return value instanceof Error ? value : new Error(String(value));
}

/** The first line of a message, which others may follow that only the log needs. */
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
