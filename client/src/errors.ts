// What a call can fail with: an answer that says no, no answer, or too late an answer.
import type { ErrorCode, ExecResult } from './contract.ts';

/** Every error of this library is one. */
export class SandboxdError extends Error {
  override readonly name: string = 'SandboxdError';
}

/** The daemon said no. `message` are its own words. */
export class ApiError extends SandboxdError {
  override readonly name: string = 'ApiError';
  readonly status: number;
  /** What the daemon's log calls the request. */
  readonly requestId: string | undefined;
  /** Which kind of failure; undefined of an older daemon and of a proxy. Later daemons may know more. */
  readonly code: ErrorCode | undefined;

  constructor(status: number, message: string, requestId?: string, code?: ErrorCode) {
    super(message);
    this.status = status;
    this.requestId = requestId;
    this.code = code;
  }
}

/** 400: the request makes no sense. */
export class BadRequestError extends ApiError {
  override readonly name = 'BadRequestError';
}
/** 401: the key is missing, unknown or expired. */
export class UnauthorizedError extends ApiError {
  override readonly name = 'UnauthorizedError';
}
/** 403: the key's policy forbids it. */
export class ForbiddenError extends ApiError {
  override readonly name = 'ForbiddenError';
}
/** 404: there is no such thing. */
export class NotFoundError extends ApiError {
  override readonly name = 'NotFoundError';
}
/** 409: something else holds it, or it is in a state that forbids it. */
export class ConflictError extends ApiError {
  override readonly name = 'ConflictError';
}
/** 413: the body is too large. */
export class TooLargeError extends ApiError {
  override readonly name = 'TooLargeError';
}
/** 501: this daemon has that not enabled. */
export class UnsupportedError extends ApiError {
  override readonly name = 'UnsupportedError';
}
/** 502: a registry or the guest does not answer. */
export class UpstreamError extends ApiError {
  override readonly name = 'UpstreamError';
}
/** 503: the host has no room now. */
export class UnavailableError extends ApiError {
  override readonly name = 'UnavailableError';
  /** When the daemon says to try again. */
  retryAfterMs: number | undefined;
}

const BY_STATUS: Readonly<Record<number, typeof ApiError>> = {
  400: BadRequestError,
  401: UnauthorizedError,
  403: ForbiddenError,
  404: NotFoundError,
  409: ConflictError,
  413: TooLargeError,
  501: UnsupportedError,
  502: UpstreamError,
  503: UnavailableError,
};

export function toApiError(status: number, message: string, requestId?: string, code?: ErrorCode): ApiError {
  return new (BY_STATUS[status] ?? ApiError)(status, message, requestId, code);
}

/** No answer, or one that broke off. */
export class ConnectionError extends SandboxdError {
  override readonly name: string = 'ConnectionError';
  /** The daemon cannot have seen the request. */
  readonly isUnsent: boolean;
  /** What the daemon's log calls the request, where its answer had begun. */
  readonly requestId: string | undefined;

  constructor(
    message: string,
    {
      cause,
      isUnsent = false,
      requestId,
    }: { cause?: unknown; isUnsent?: boolean; requestId?: string | undefined } = {},
  ) {
    super(message, { cause });
    this.isUnsent = isUnsent;
    this.requestId = requestId;
  }
}

/** The daemon's certificate is of no authority that is trusted here (`ca`), or of another host. Nothing was sent. */
export class CertificateError extends ConnectionError {
  override readonly name = 'CertificateError';
}

/** `timeoutMs` has passed. */
export class TimeoutError extends SandboxdError {
  override readonly name = 'TimeoutError';
}

/** A command whose output was asked for did not exit with 0. */
export class CommandError extends SandboxdError {
  override readonly name = 'CommandError';
  readonly result: ExecResult;
  /** The end of what it said there. */
  readonly stderr: string;

  constructor(cmd: readonly string[], result: ExecResult, stderr: string) {
    const said = stderr.trim().split('\n').at(-1) ?? '';
    super(`${cmd[0]} ${describeEnd(result)}${said === '' ? '' : `: ${said}`}`);
    this.result = result;
    this.stderr = stderr;
  }
}

/** How a command ended, behind its name. */
export function describeEnd({ exit_code, signal, timed_out, oom_killed, error }: ExecResult): string {
  if (error !== undefined) return `failed: ${error}`;
  if (timed_out) return 'was killed because its time was over';
  if (oom_killed) return 'ran out of memory';
  return signal === undefined ? `exited with ${exit_code}` : `was ended by ${signal}`;
}
