// Errors of a call: an error answer, no answer, or a timeout.
import type { ErrorCode, ExecResult } from './contract.ts';

/** Base class of all errors of this library. */
export class SandboxdError extends Error {
  override readonly name: string = 'SandboxdError';
}

/** The daemon answered with an error. `message` is the daemon's text. */
export class ApiError extends SandboxdError {
  override readonly name: string = 'ApiError';
  readonly status: number;
  /** The request id in the daemon's log. */
  readonly requestId: string | undefined;
  /** The error code; undefined for older daemons and for proxies. Later daemons may add codes. */
  readonly code: ErrorCode | undefined;

  constructor(status: number, message: string, requestId?: string, code?: ErrorCode) {
    super(message);
    this.status = status;
    this.requestId = requestId;
    this.code = code;
  }
}

/** 400: the request is invalid. */
export class BadRequestError extends ApiError {
  override readonly name = 'BadRequestError';
}
/** 401: the key is missing, unknown or expired. */
export class UnauthorizedError extends ApiError {
  override readonly name = 'UnauthorizedError';
}
/** 403: the key's policy forbids the request. */
export class ForbiddenError extends ApiError {
  override readonly name = 'ForbiddenError';
}
/** 404: the resource does not exist. */
export class NotFoundError extends ApiError {
  override readonly name = 'NotFoundError';
}
/** 409: the resource is in use, or its state forbids the request. */
export class ConflictError extends ApiError {
  override readonly name = 'ConflictError';
}
/** 412: the file is not as the condition of the request demands. */
export class PreconditionError extends ApiError {
  override readonly name = 'PreconditionError';
}
/** 413: the body is too large. */
export class TooLargeError extends ApiError {
  override readonly name = 'TooLargeError';
}
/** 422: the idempotency key was used for a different call. */
export class MismatchError extends ApiError {
  override readonly name = 'MismatchError';
}
/** 501: the feature is disabled on this daemon. */
export class UnsupportedError extends ApiError {
  override readonly name = 'UnsupportedError';
}
/** 502: a registry or the guest failed to answer. */
export class UpstreamError extends ApiError {
  override readonly name = 'UpstreamError';
}
/** 503: the host has no capacity at present. */
export class UnavailableError extends ApiError {
  override readonly name = 'UnavailableError';
  /** The daemon's Retry-After, in milliseconds. */
  retryAfterMs: number | undefined;
}

const BY_STATUS: Readonly<Record<number, typeof ApiError>> = {
  400: BadRequestError,
  401: UnauthorizedError,
  403: ForbiddenError,
  404: NotFoundError,
  409: ConflictError,
  412: PreconditionError,
  413: TooLargeError,
  422: MismatchError,
  501: UnsupportedError,
  502: UpstreamError,
  503: UnavailableError,
};

export function toApiError(status: number, message: string, requestId?: string, code?: ErrorCode): ApiError {
  return new (BY_STATUS[status] ?? ApiError)(status, message, requestId, code);
}

/** No answer, or an incomplete one. */
export class ConnectionError extends SandboxdError {
  override readonly name: string = 'ConnectionError';
  /** The daemon cannot have received the request. */
  readonly isUnsent: boolean;
  /** The request id in the daemon's log, if the answer had begun. */
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

/**
 * The daemon's certificate is not signed by a trusted authority (`ca`), or belongs to another host. Nothing was sent.
 */
export class CertificateError extends ConnectionError {
  override readonly name = 'CertificateError';
}

/** `timeoutMs` has passed. */
export class TimeoutError extends SandboxdError {
  override readonly name = 'TimeoutError';
}

/** A command whose output was requested did not exit with 0. */
export class CommandError extends SandboxdError {
  override readonly name = 'CommandError';
  readonly result: ExecResult;
  /** The end of its standard error. */
  readonly stderr: string;

  constructor(cmd: readonly string[], result: ExecResult, stderr: string) {
    const lastLine = stderr.trim().split('\n').at(-1) ?? '';
    super(`${cmd[0]} ${describeEnd(result)}${lastLine === '' ? '' : `: ${lastLine}`}`);
    this.result = result;
    this.stderr = stderr;
  }
}

/** Describes a command's result, as the rest of a sentence after its name. */
export function describeEnd({ exit_code, signal, timed_out, oom_killed, error }: ExecResult): string {
  if (error !== undefined) return `failed: ${error}`;
  if (timed_out) return 'was killed because its time was over';
  if (oom_killed) return 'ran out of memory';
  return signal === undefined ? `exited with ${exit_code}` : `was ended by ${signal}`;
}
