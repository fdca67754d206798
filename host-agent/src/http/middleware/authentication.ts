// Authenticates every request, on every path, before its body is read.
import { createMiddleware } from 'hono/factory';
import { ANONYMOUS, type KeyHolder } from '../../keys/index.ts';
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
    if (principal.kind === 'key') {
      trackOpen(authenticator, principal, c);
      c.set('log', c.get('log').child({ key: principal.key }));
    }
    await next();
  });
}

function trackOpen(authenticator: Authenticator, principal: KeyHolder, { env }: HttpContext): void {
  const { incoming, outgoing, takeover }: Partial<HttpContext['env']> = env ?? {};
  const socket = takeover?.socket ?? incoming?.socket;
  const lifetime = takeover?.socket ?? outgoing;
  if (socket !== undefined && lifetime !== undefined) authenticator.open.add(principal, socket, lifetime);
}
