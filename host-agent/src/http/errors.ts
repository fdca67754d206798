// The only place where failures become HTTP: status, headers and the JSON body.
import { AppError, type ErrorCode } from '../lib/errors.ts';

/** Failures that only HTTP knows. */
type HttpCode =
  | 'malformed'
  | 'unknown_path'
  | 'method_not_allowed'
  | 'timeout'
  | 'unsupported_media'
  | 'expectation_failed'
  | 'upgrade_required'
  | 'headers_too_large'
  | 'not_implemented';

const STATUS = {
  invalid_argument: 400,
  malformed: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  unknown_path: 404,
  method_not_allowed: 405,
  timeout: 408,
  conflict: 409,
  too_large: 413,
  unsupported_media: 415,
  expectation_failed: 417,
  upgrade_required: 426,
  headers_too_large: 431,
  internal: 500,
  unsupported: 501,
  not_implemented: 501,
  upstream: 502,
  guest_unreachable: 502,
  exhausted: 503,
  cancelled: 503,
} as const satisfies Record<ErrorCode | HttpCode, number>;

export type ErrorStatus = (typeof STATUS)[keyof typeof STATUS];

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
    return { status: STATUS[error.code], headers: error.headers, body: { error: error.message } };
  }
  if (error instanceof AppError) {
    return { status: STATUS[error.code], headers: toHeaders(error), body: { error: error.message } };
  }
  return {
    status: STATUS.internal,
    headers: {},
    body: { error: `internal error; the daemon's log says more under request id ${requestId}` },
  };
}

function toHeaders({ code, details }: AppError): Readonly<Record<string, string>> {
  if (code === 'unauthenticated') return { 'WWW-Authenticate': 'Bearer' };
  if (STATUS[code] === 503) return { 'Retry-After': String(details.retryAfterS ?? DEFAULT_RETRY_AFTER_S) };
  return {};
}
