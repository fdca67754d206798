// Fires when the client has left, with a reason that the rest of the daemon knows.
import { AppError } from '../lib/errors.ts';
import type { HttpContext } from './context.ts';

export function clientSignal(c: HttpContext): AbortSignal {
  const { signal } = c.req.raw;
  const left = new AbortController();
  const onAbort = () => left.abort(new AppError('cancelled', 'the client left before the answer'));
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  return left.signal;
}
