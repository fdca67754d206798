// What a browser sends for the page of another site.
import t from 'tap';
import { makeApp } from './support.ts';

t.test('a page of another site changes nothing', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const send = async (method: string, path: string, origin: string): Promise<number> => {
    const headers = { host: '127.0.0.1:7878', origin, 'content-type': 'text/plain' };
    return (await app.request(path, { method, headers })).status;
  };
  let created = 0;
  sandboxes.onCreate = async () => {
    created += 1;
  };
  for (const origin of ['http://evil.example', 'https://127.0.0.1', 'http://127.0.0.1:78', 'null', '%']) {
    t.equal(await send('POST', '/sandboxes', origin), 403, origin);
    t.equal(await send('POST', `/sandboxes/${id}/exec`, origin), 403);
    t.equal(await send('POST', `/sandboxes/${id}/files?path=/x`, origin), 403);
    t.equal(await send('DELETE', `/sandboxes/${id}`, origin), 403);
    t.equal(await send('GET', `/sandboxes/${id}`, origin), 200, 'which a browser does not let it read');
  }
  t.equal(created, 0);
  t.equal(await send('POST', '/sandboxes', 'http://127.0.0.1:7878'), 201);
  t.equal(created, 1);
});
