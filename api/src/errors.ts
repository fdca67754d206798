// The one catalogue of failures: the code that every error answer has, its status, and when it comes.

/** Of what a daemon was asked to do. */
export const OPERATION_ERRORS = {
  invalid_argument: { status: 400, when: 'the request makes no sense as it is' },
  unauthenticated: { status: 401, when: 'the key is missing, unknown or expired' },
  forbidden: { status: 403, when: 'the policy of the key, the Host or the Origin forbids it' },
  not_found: { status: 404, when: 'what the path or the body names does not exist' },
  conflict: { status: 409, when: 'the resource is in a state, or held by somebody, that forbids it' },
  gone: { status: 410, when: 'what the request goes on from is not kept any more' },
  too_large: { status: 413, when: 'the body is larger than a limit of the interface' },
  internal: { status: 500, when: 'the daemon or the sandbox failed' },
  unsupported: { status: 501, when: 'this daemon has that not enabled' },
  upstream: { status: 502, when: 'something outside of this host failed, such as a registry' },
  guest_unreachable: { status: 502, when: 'the guest does not answer' },
  exhausted: {
    status: 503,
    when: 'the host has no memory, disk or slot for it now; Retry-After says when to try',
  },
  cancelled: { status: 503, when: 'the client left, or the daemon stops' },
} as const;

/** Of the request as HTTP, before any operation. */
export const HTTP_ERRORS = {
  malformed: { status: 400, when: 'the request is no HTTP, or no HTTP that a proxy would read alike' },
  unknown_path: { status: 404, when: 'there is no such path' },
  method_not_allowed: { status: 405, when: 'the path has other methods, which Allow names' },
  timeout: { status: 408, when: 'the client fell silent within its request' },
  unsupported_media: { status: 415, when: 'the body is a form of files, or JSON that is compressed' },
  expectation_failed: { status: 417, when: 'Expect asks for something else than 100-continue' },
  upgrade_required: { status: 426, when: 'the path speaks WebSocket only' },
  headers_too_large: { status: 431, when: 'the headers of the request are too long' },
  not_implemented: { status: 501, when: 'this transport cannot do that' },
} as const;

export const ERRORS = { ...OPERATION_ERRORS, ...HTTP_ERRORS } as const;

export type ErrorCode = keyof typeof OPERATION_ERRORS;
export type HttpErrorCode = keyof typeof HTTP_ERRORS;
export type ApiErrorCode = keyof typeof ERRORS;
export type ErrorStatus = (typeof ERRORS)[ApiErrorCode]['status'];

export const ERROR_CODES = Object.keys(ERRORS) as [ApiErrorCode, ...ApiErrorCode[]];
