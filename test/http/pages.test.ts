// Every route that lists something has pages, which together are the list.
import { ROUTES, type Route } from '@sandboxd/api';
import t from 'tap';
import type { Images } from '../../host-agent/src/images/index.ts';
import { FakeImages, IMAGE } from './fake-images.ts';
import { ask, makeApp } from './support.ts';

const LISTS = {
  listSandboxes: 'sandboxes',
  listSnapshots: 'snapshots',
  listImages: 'images',
  listSecrets: 'secrets',
} as const;

t.test('the paged routes are those that return an array of client-made resources', async (t) => {
  const paged = Object.entries<Route>(ROUTES).filter(([, { query }]) => query && 'cursor' in query.shape);
  // Files are a guest's own, and a tree has snapshots and sandboxes.
  const others = ['listFiles', 'showSnapshotTree'];
  const names = paged.map(([name]) => name).filter((name) => !others.includes(name));
  t.same(names.sort(), Object.keys(LISTS).sort());
});

for (const [name, list] of Object.entries(LISTS)) {
  t.test(`${name}: pages`, async (t) => {
    const images = new FakeImages();
    const stored = ['1', '2', '3'].map((digit) => ({ ...IMAGE, digest: `sha256:${digit.repeat(64)}` }));
    images.store.list = () => stored;
    const { app, sandboxes } = makeApp({ images: images.store as Images });
    for (let n = 0; n < 3; n++) {
      const { id } = sandboxes.add();
      await ask(app, 'POST', `/sandboxes/${id}/snapshot`);
    }
    const read = async (query: string) => {
      const { status, body, error } = await ask(app, 'GET', `/${list}${query}`);
      const { next_cursor, [list]: entries = [] } = body as Record<string, unknown> & {
        next_cursor?: string;
      };
      const texts = (entries as object[]).map((entry) => JSON.stringify(entry));
      return { status, error, next_cursor, texts };
    };
    const whole = await read('');
    t.match(whole, { status: 200, texts: { length: 3 }, next_cursor: undefined });
    const first = await read('?limit=2');
    const second = await read(`?limit=2&cursor=${first.next_cursor}`);
    t.match([first, second], [{ texts: { length: 2 } }, { texts: { length: 1 }, next_cursor: undefined }]);
    t.same([...first.texts, ...second.texts].sort(), [...whole.texts].sort());
    t.equal((await read('?limit=3')).next_cursor, undefined);
    for (const bad of ['?limit=0', '?limit=1001', '?limit=x', '?cursor=x', `?cursor=${'x'.repeat(300)}`])
      t.match(await read(bad), { status: 400, error: /limit must be|cursor must be/ }, bad);
  });
}
