// A signal that aborts with AppError cancelled when the client disconnects.
import { AppError } from '../lib/errors.ts';
import type { HttpContext } from './context.ts';

export function clientSignal(c: HttpContext): AbortSignal {
  const { signal } = c.req.raw;
  const disconnected = new AbortController();
  const onAbort = () => disconnected.abort(new AppError('cancelled', 'the client left before the answer'));
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  return disconnected.signal;
}
