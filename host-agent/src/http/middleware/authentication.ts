// Lets nobody in without a key where there are keys: before a body is read, whatever the path.
import { createMiddleware } from 'hono/factory';
import { ANONYMOUS, type Principal, toOwner } from '../../keys/index.ts';
import type { Authenticator } from '../authentication.ts';
import { addressOf, type HttpContext, type HttpEnv, headerOf } from '../context.ts';
import { findRoute } from '../known-routes.ts';

export function authentication(authenticator: Authenticator) {
  return createMiddleware<HttpEnv>(async (c, next) => {
    c.set('principal', ANONYMOUS);
    const isPublic = findRoute(c.req.method, c.req.path)?.access === 'public';
    const principal = isPublic
      ? ANONYMOUS
      : await authenticator.authenticate({
          authorization: headerOf(c, 'authorization'),
          protocols: headerOf(c, 'sec-websocket-protocol'),
          address: addressOf(c),
        });
    c.set('principal', principal);
    if (toOwner(principal) !== undefined) {
      noteOpen(authenticator, principal, c);
      c.set('log', c.get('log').child({ key: principal.key }));
    }
    await next();
  });
}

function noteOpen(authenticator: Authenticator, principal: Principal, { env }: HttpContext): void {
  const { incoming, outgoing, takeover }: Partial<HttpContext['env']> = env ?? {};
  const socket = takeover?.socket ?? incoming?.socket;
  const whole = takeover?.socket ?? outgoing;
  if (socket !== undefined && whole !== undefined) authenticator.open.add(principal, socket, whole);
}
