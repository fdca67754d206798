// Answers to requests with secrets, in HTTP/1 and HTTP/2.
import type { Headers, Redaction } from './substitution/index.ts';

/** Bodies of answers that have none are not decoded. */
export function redact(
  redaction: Redaction | undefined,
  method: string,
  status: number,
  headers: Headers,
): ReturnType<Redaction['answer']> {
  if (redaction === undefined) return { kind: 'pass', headers, body: [] };
  if (method !== 'HEAD' && status !== 204 && status !== 304) return redaction.answer(status, headers);
  return { kind: 'pass', headers: redaction.headers(headers), body: [] };
}
