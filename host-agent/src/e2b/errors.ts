// Errors in E2B's form: `{"code": <status>, "message": …}`, for the control plane and envd's plain HTTP.
import { ApiError } from '@sandboxd/client';
import { toErrorAnswer } from '../http/errors.ts';

export class E2bError extends Error {
  override readonly name = 'E2bError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Of a sandbox that does not exist, or sleeps. The SDKs know it by the words `was not found`. */
export class SandboxGoneError extends E2bError {
  readonly sandboxId: string;

  constructor(sandboxId: string) {
    super(502, 'The sandbox was not found');
    this.sandboxId = sandboxId;
  }
}

export function unsupported(what: string): E2bError {
  return new E2bError(501, `${what}: sandboxd does not support this; docs/e2b.md lists what it does`);
}

export type E2bAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly code: number; readonly message: string };
};

export function toE2bAnswer(error: unknown, requestId: string): E2bAnswer {
  if (error instanceof SandboxGoneError) {
    const { sandboxId, status, message } = error;
    const body = { sandboxId, message, code: status };
    return { status, headers: {}, body };
  }
  if (error instanceof E2bError || error instanceof ApiError)
    return toAnswer(error.status, error.message, retryAfter(error));
  const { status, headers, body } = toErrorAnswer(error, requestId);
  return toAnswer(status, body.error, headers);
}

function toAnswer(status: number, message: string, headers: E2bAnswer['headers']): E2bAnswer {
  // Their Python SDK repeats a POST on 503, up to three times within a second.
  const shouldRetry = status === 503 && { 'Should-Retry': 'false' };
  return { status, headers: { ...headers, ...shouldRetry }, body: { code: status, message } };
}

function retryAfter(error: Error): E2bAnswer['headers'] {
  const { retryAfterMs } = error as { readonly retryAfterMs?: number };
  return retryAfterMs === undefined ? {} : { 'Retry-After': String(Math.ceil(retryAfterMs / 1000)) };
}
