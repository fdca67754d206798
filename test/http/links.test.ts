// Links to ports over HTTP, before sandboxes of a real manager.
import t from 'tap';
import { linkHandlers } from '../../host-agent/src/http/routes/port-links.ts';
import type { PortLinks } from '../../host-agent/src/http/services.ts';
import { OPERATOR } from '../../host-agent/src/keys/index.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';

t.test('a link to a closed port opens it, privately', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const deleted: string[] = [];
  let onCreate = async (): Promise<void> => undefined;
  const link = { id: 'link_0123456789abc', createdAtMs: 0, expiresAtMs: 1000 };
  const portLinks = {
    create: async () => {
      await onCreate();
      return { token: 'sbl_x', link };
    },
    list: () => [],
    delete: async (_sandbox: string, _port: number, one: string) => void deleted.push(one),
    urlOf: () => new URL('http://3000-x.localhost/'),
  } as unknown as PortLinks;
  const { makeLink } = linkHandlers({ sandboxes: manager, portLinks } as never);
  const audit = {};
  const context = { get: (name: string) => (name === 'principal' ? OPERATOR : audit) };
  const make = (port: number) =>
    makeLink({ params: { id, port }, body: { expires_s: 60 } } as never, context as never);
  const ports = () => manager.get(id).info.ports?.map(({ port, access }) => [port, access]);
  t.match(await make(3000), { id: link.id, url: 'http://3000-x.localhost/?sandbox_link=sbl_x' });
  t.same(ports(), [[3000, 'private']]);
  onCreate = async () => void (await manager.as(OPERATOR).get(id).changePort(3001, undefined));
  await t.rejects(make(3001), { code: 'conflict', message: 'port 3001 was closed meanwhile' });
  t.same(deleted, [link.id], 'it does not come to life when the port is opened again');
  onCreate = () => manager.delete(id);
  await t.rejects(make(3000), { code: 'conflict' });
});
