// Reads answers: their JSON within bounds, and the errors of the daemon or of whatever else answers on its port.
import type { ErrorCode } from '../contract.ts';
import { SandboxdError, toApiError, UnavailableError } from '../errors.ts';
import { ROUTES, type RouteName } from '../gen/routes.ts';
import type { WireAnswer } from './transport.ts';

/** Limit of a JSON answer; the largest, an exec with 16 MiB of each stream, has a third of it. */
const MAX_ANSWER_CHARS = 96 << 20;
const MAX_FAILURE_CHARS = 64 << 10;

/** Another program may listen on the port and answer. */
export function parseAnswer(name: RouteName, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const { method, path } = ROUTES[name];
    const message = `the answer to ${method} ${path} is not JSON; is it a sandboxd that listens there?`;
    throw new SandboxdError(message, { cause });
  }
}

export async function toFailure(answer: WireAnswer): Promise<SandboxdError> {
  // A proxy's error page may be long or endless; its beginning is enough.
  const text = await readText(answer, MAX_FAILURE_CHARS);
  let message = text.slice(0, 500) || `the daemon answered ${answer.status}`;
  let code: ErrorCode | undefined;
  try {
    const body = JSON.parse(text) as { readonly error: unknown; readonly code?: unknown };
    message = String(body.error);
    if (typeof body.code === 'string') code = body.code as ErrorCode;
  } catch {
    // A proxy's error page, or an empty body.
  }
  const error = toApiError(answer.status, message, answer.header('x-request-id'), code);
  const seconds = Number(answer.header('retry-after'));
  if (error instanceof UnavailableError && seconds > 0) error.retryAfterMs = seconds * 1000;
  return error;
}

/** Another program on the port may send an endless answer. */
export async function readBounded(name: RouteName, answer: WireAnswer): Promise<string> {
  const text = await readText(answer, MAX_ANSWER_CHARS + 1);
  if (text.length <= MAX_ANSWER_CHARS) return text;
  const { method, path } = ROUTES[name];
  const message = `the answer to ${method} ${path} has more than ${MAX_ANSWER_CHARS} characters; is it a sandboxd that listens there?`;
  throw new SandboxdError(message);
}

/** Reads the first `maxChars` characters and abandons the rest. */
export async function readText(
  { body }: Pick<WireAnswer, 'body'>,
  maxChars = Number.POSITIVE_INFINITY,
): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length >= maxChars) return text.slice(0, maxChars);
  }
  return text + decoder.decode();
}
