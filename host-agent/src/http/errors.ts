// The only place that maps errors to HTTP: status, headers and JSON body.
import { type ApiErrorCode, ERRORS, type ErrorStatus, type HttpErrorCode } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';

/** Retry-After in seconds if the error does not define one. */
const DEFAULT_RETRY_AFTER_S = 5;

/** An error of HTTP itself, found before any operation starts. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: HttpErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: HttpErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }
}

export type ErrorAnswer = {
  readonly status: ErrorStatus;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error: string; readonly code: ApiErrorCode };
};

/**
 * The response to an error. An unexpected error shows only the request id, with which the operator finds it in the log.
 */
export function toErrorAnswer(error: unknown, requestId: string): ErrorAnswer {
  if (error instanceof HttpError) return toAnswer(error.code, error.message, error.headers);
  if (error instanceof AppError) return toAnswer(error.code, error.message, toHeaders(error));
  return toAnswer('internal', `internal error; the daemon's log says more under request id ${requestId}`);
}

function toAnswer(code: ApiErrorCode, message: string, headers: ErrorAnswer['headers'] = {}): ErrorAnswer {
  return { status: ERRORS[code].status, headers, body: { error: message, code } };
}

function toHeaders({ code, details }: AppError): Readonly<Record<string, string>> {
  if (code === 'unauthenticated') return { 'WWW-Authenticate': 'Bearer' };
  if (ERRORS[code].status === 503)
    return { 'Retry-After': String(details.retryAfterS ?? DEFAULT_RETRY_AFTER_S) };
  return {};
}
