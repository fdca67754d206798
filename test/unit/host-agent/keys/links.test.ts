// Links to ports: their bound, their end, and what an earlier daemon left.
import { join } from 'node:path';
import { MAX_PORT_LINKS } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { LinkRegistry } from '../../../../host-agent/src/keys/links.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';

const NEW = { sandbox: 'sbx_a', port: 80, expiresS: 60, maker: undefined };

async function open(t: Test) {
  const store = await Store.open(join(t.testdir(), 'state.lmdb'));
  t.teardown(() => store.close());
  return { store, links: new LinkRegistry(store, () => true) };
}

t.test('requests at the same time share the bound', async (t) => {
  const { links } = await open(t);
  const all = await Promise.allSettled(Array.from({ length: MAX_PORT_LINKS + 44 }, () => links.create(NEW)));
  t.equal(all.filter(({ status }) => status === 'rejected').length, 44);
  t.match(
    all.find(({ status }) => status === 'rejected'),
    { reason: { code: 'exhausted' } },
  );
  t.equal(links.list('sbx_a', 80).length, MAX_PORT_LINKS);
});

t.test('a daemon that starts removes those of ports that are not open', async (t) => {
  const { store, links } = await open(t);
  await links.create(NEW);
  const kept = await links.create({ ...NEW, port: 81 });
  const next = new LinkRegistry(store, () => true);
  await next.sweep((_, port) => port === 81);
  t.same(next.list('sbx_a', 80), []);
  t.match(next.find(kept.token), { port: 81 });
  t.equal(store.table('port_links').all().length, 1);
});
