// Links to ports of sandboxes: the URLs that open a private port, listed, made and deleted.
import { LINK_PARAMETER, type Link, ownerOf } from '../../keys/index.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import type { Sandboxes } from '../../sandboxes/interface.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices, PortLinks } from '../services.ts';

export function linkHandlers({ sandboxes: host, portLinks }: HttpServices) {
  return {
    listLinks: ({ params: { id, port } }, c) => {
      host.as(c.get('principal')).get(id);
      const links = needIngress(portLinks);
      return { links: links.list(id, port).map(toBody) };
    },

    makeLink: async ({ params: { id, port }, body: { expires_s, methods } }, c) => {
      const principal = c.get('principal');
      const sandbox = host.as(principal).get(id);
      const links = needIngress(portLinks);
      // A handle shows the sandbox as it was when it was got.
      const isOpen = () => isPortOpen(host.as(principal), id, port);
      if (!isOpen()) await sandbox.changePort(port, 'private');
      const owner = ownerOf(principal);
      const { token, link } = await links.create({
        sandbox: id,
        port,
        expiresS: expires_s,
        maker: principal.kind === 'key' ? principal : undefined,
        ...(methods !== undefined && { methods }),
        ...(owner !== undefined && { owner }),
      });
      // Closed meanwhile: the link would come to life when the port is opened again.
      if (!isOpen()) {
        await links.delete(id, port, link.id).catch(() => undefined);
        throw new AppError('conflict', `port ${port} was closed meanwhile`);
      }
      c.get('audit').effective = { port, link: link.id, expires_s, ...(methods && { methods }) };
      const url = links.urlOf(id, port);
      url.searchParams.set(LINK_PARAMETER, token);
      return { ...toBody(link), url: url.href };
    },

    deleteLink: async ({ params: { id, port, link } }, c) => {
      host.as(c.get('principal')).get(id);
      const links = needIngress(portLinks);
      c.get('audit').effective = { port, link };
      await links.delete(id, port, link);
      return undefined;
    },
  } satisfies Partial<Handlers>;
}

function isPortOpen(sandboxes: Sandboxes, id: string, port: number): boolean {
  try {
    return sandboxes.get(id).info.ports?.some((each) => each.port === port) === true;
  } catch (error) {
    if (isAppError(error) && ['not_found', 'exhausted'].includes(error.code)) return false;
    throw error;
  }
}

/** AppError unsupported. */
function needIngress(links: PortLinks | undefined): PortLinks {
  if (links !== undefined) return links;
  throw new AppError(
    'unsupported',
    'this daemon has no ingress, so ports have no URLs; start it with --ingress-listen',
  );
}

function toBody({ id, createdAtMs, expiresAtMs, methods }: Link) {
  return {
    id,
    created_at: new Date(createdAtMs).toISOString(),
    expires_at: new Date(expiresAtMs).toISOString(),
    ...(methods !== undefined && { methods: [...methods] }),
  };
}
