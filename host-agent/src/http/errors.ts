// The only place where failures become HTTP: status, headers and the JSON body.
import { type ApiErrorCode, ERRORS, type ErrorStatus } from '@sandboxd/api';
import { AppError, type ErrorCode } from '../lib/errors.ts';

/** Failures that only HTTP knows. */
type HttpCode = Exclude<ApiErrorCode, ErrorCode>;

/** Seconds in Retry-After when the failure itself names none. */
const DEFAULT_RETRY_AFTER_S = 5;

/** A failure of the request as HTTP, before any operation of the daemon. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: HttpCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: HttpCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }
}

export type ErrorAnswer = {
  readonly status: ErrorStatus;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error: string };
};

/** What a client is told. An error that is none of ours shows nothing of itself but the id to look up in the log. */
export function toErrorAnswer(error: unknown, requestId: string): ErrorAnswer {
  if (error instanceof HttpError) {
    return { status: ERRORS[error.code].status, headers: error.headers, body: { error: error.message } };
  }
  if (error instanceof AppError) {
    return { status: ERRORS[error.code].status, headers: toHeaders(error), body: { error: error.message } };
  }
  return {
    status: ERRORS.internal.status,
    headers: {},
    body: { error: `internal error; the daemon's log says more under request id ${requestId}` },
  };
}

function toHeaders({ code, details }: AppError): Readonly<Record<string, string>> {
  if (code === 'unauthenticated') return { 'WWW-Authenticate': 'Bearer' };
  if (ERRORS[code].status === 503)
    return { 'Retry-After': String(details.retryAfterS ?? DEFAULT_RETRY_AFTER_S) };
  return {};
}
