// The catalogue of errors: the code of each error answer, its HTTP status and its cause.

/** Errors of operations. */
export const OPERATION_ERRORS = {
  invalid_argument: { status: 400, when: 'the request is invalid' },
  unauthenticated: { status: 401, when: 'the key is missing, unknown or expired' },
  forbidden: {
    status: 403,
    when: 'the policy of the key, the Host header or the Origin header forbids the request',
  },
  not_found: { status: 404, when: 'a resource that the path or body names does not exist' },
  conflict: {
    status: 409,
    when: 'the state of the resource, or another user of it, does not permit the operation',
  },
  paused: { status: 409, when: 'the sandbox is paused, and does not resume by use' },
  gone: { status: 410, when: 'the position from which the request continues was deleted' },
  precondition_failed: {
    status: 412,
    when: 'the file is not as If-Match or If-None-Match demands',
  },
  too_large: { status: 413, when: 'the body is larger than a limit of the API' },
  idempotency_mismatch: {
    status: 422,
    when: 'the Idempotency-Key was used for a different request within the last day',
  },
  internal: { status: 500, when: 'the daemon or the sandbox failed' },
  unsupported: { status: 501, when: 'the feature is disabled on this daemon' },
  upstream: { status: 502, when: 'a service outside of this host failed, such as a registry' },
  port_failed: {
    status: 502,
    when: 'the server on that port of the sandbox closed the connection, or sent malformed HTTP',
  },
  guest_unreachable: { status: 502, when: 'the guest does not respond' },
  port_not_listening: { status: 502, when: 'nothing listens on that port of the sandbox' },
  exhausted: {
    status: 503,
    when: 'the host has no memory, disk space or slot now; Retry-After says when to try again',
  },
  cancelled: { status: 503, when: 'the client disconnected, or the daemon stops' },
  port_timeout: { status: 504, when: 'the server on that port of the sandbox sent nothing for too long' },
} as const;

/** Errors of HTTP itself; most are found before any operation starts. */
export const HTTP_ERRORS = {
  malformed: { status: 400, when: 'the request is not valid HTTP, or is ambiguous (request smuggling)' },
  unknown_path: { status: 404, when: 'the path does not exist' },
  method_not_allowed: {
    status: 405,
    when: 'the path does not support the method; Allow lists the supported ones',
  },
  timeout: { status: 408, when: 'the client stopped sending, or sent too slowly' },
  unsupported_media: { status: 415, when: 'the body is multipart/form-data or compressed JSON' },
  range_not_satisfiable: { status: 416, when: 'the file has no byte of the requested range' },
  expectation_failed: { status: 417, when: 'Expect is not 100-continue' },
  upgrade_required: { status: 426, when: 'the path supports only WebSocket' },
  headers_too_large: { status: 431, when: 'the headers of the request are too long' },
  not_implemented: { status: 501, when: 'the transport does not support the operation' },
} as const;

export const ERRORS = { ...OPERATION_ERRORS, ...HTTP_ERRORS } as const;

export type ErrorCode = keyof typeof OPERATION_ERRORS;
export type HttpErrorCode = keyof typeof HTTP_ERRORS;
export type ApiErrorCode = keyof typeof ERRORS;
export type ErrorStatus = (typeof ERRORS)[ApiErrorCode]['status'];

export const ERROR_CODES = Object.keys(ERRORS) as [ApiErrorCode, ...ApiErrorCode[]];
