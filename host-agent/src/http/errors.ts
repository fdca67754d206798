// The only place where failures become HTTP: status, headers and the JSON body.
import { type ApiErrorCode, ERRORS, type ErrorStatus, type HttpErrorCode } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';

/** Seconds in Retry-After when the failure itself names none. */
const DEFAULT_RETRY_AFTER_S = 5;

/** A failure of the request as HTTP, before any operation of the daemon. */
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

/** What a client is told. An error that is none of ours shows nothing of itself but the id to look up in the log. */
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
