// Single files of a real guest through the interface: description, pages, content with ranges and ETags, names and
// attributes, and whose rights apply.
import { createHash, randomBytes } from 'node:crypto';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(300_000));
const { api, url } = await startDaemon(t);
const { id } = await api.create();

type Entry = { path: string; type: string; mode: string; size_bytes: number; etag: string; user?: string };
type Init = NonNullable<Parameters<typeof fetch>[1]>;

const ask = (path: string, query: Record<string, string>, init: Init = {}) =>
  fetch(`${url}/sandboxes/${id}/files${path}?${new URLSearchParams(query)}`, init);
const put = (path: string, body: Init['body'], headers = {}, query = {}) =>
  ask('/content', { path, ...query }, { method: 'PUT', body: body ?? null, headers });
const post = async (path: string, body: object, method = 'POST') => {
  const response = await fetch(`${url}/sandboxes/${id}/files${path}`, { method, body: JSON.stringify(body) });
  return {
    status: response.status,
    body: (await response.json()) as Entry & { code?: string; error?: string },
  };
};

t.test('a file is written, described, read in parts and listed', async (t) => {
  const content = randomBytes(3_000_000);
  const written = await put('/srv/new/file', content, {}, { mode: '0640' });
  t.equal(written.status, 200);
  const entry = (await written.json()) as Entry;
  t.match(entry, { path: '/srv/new/file', type: 'file', mode: '0640', size_bytes: 3_000_000, user: 'root' });
  t.equal(written.headers.get('etag'), entry.etag);
  t.equal(
    await api.sh(id, 'sha256sum < /srv/new/file; stat -c "%a %U" /srv/new/file; ls -A /srv/new'),
    `${createHash('sha256').update(content).digest('hex')}  -\n640 root\nfile`,
  );
  t.match(await (await ask('/stat', { path: '/srv/new/file' })).json(), entry);
  const part = await ask(
    '/content',
    { path: '/srv/new/file' },
    { headers: { range: 'bytes=1000000-1999999' } },
  );
  t.equal(part.status, 206);
  t.equal(part.headers.get('content-range'), 'bytes 1000000-1999999/3000000');
  t.ok(Buffer.from(await part.arrayBuffer()).equals(content.subarray(1_000_000, 2_000_000)));
  const end = await ask('/content', { path: '/srv/new/file' }, { headers: { range: 'bytes=-5' } });
  t.ok(Buffer.from(await end.arrayBuffer()).equals(content.subarray(-5)));
  const beyond = await ask('/content', { path: '/srv/new/file' }, { headers: { range: 'bytes=3000000-' } });
  t.same([beyond.status, beyond.headers.get('content-range')], [416, 'bytes */3000000']);
  const known = await ask(
    '/content',
    { path: '/srv/new/file' },
    { headers: { 'if-none-match': entry.etag } },
  );
  t.equal(known.status, 304);
  const old = { range: 'bytes=0-1', 'if-range': '"other"' };
  const whole = await ask('/content', { path: '/srv/new/file' }, { headers: old });
  t.equal(whole.status, 200);
  t.ok(Buffer.from(await whole.arrayBuffer()).equals(content));
  const kernel = await ask('/content', { path: '/proc/version' }, { headers: { range: 'bytes=0-4' } });
  t.equal(await kernel.text(), 'Linux');
  const first = (await (await ask('/list', { path: '/etc', limit: '3' })).json()) as {
    entries: Entry[];
    next_cursor: string;
  };
  t.equal(first.entries.length, 3);
  const query = { path: '/etc', limit: '3', cursor: first.next_cursor };
  const second = (await (await ask('/list', query)).json()) as { entries: Entry[] };
  const names = (await api.sh(id, 'ls -A /etc | LC_ALL=C sort | head -6')).split('\n');
  t.same(
    [...first.entries, ...second.entries].map(({ path }) => path),
    names.map((name) => `/etc/${name}`),
  );
});

t.test('a write is refused when the file is another by now', async (t) => {
  const { etag } = (await (await put('/srv/guarded', 'one')).json()) as Entry;
  t.equal((await put('/srv/guarded', 'two', { 'if-match': etag })).status, 200);
  const late = await put('/srv/guarded', 'three', { 'if-match': etag });
  t.same([late.status, ((await late.json()) as { code: string }).code], [412, 'precondition_failed']);
  t.equal((await put('/srv/guarded', 'four', { 'if-none-match': '*' })).status, 412);
  t.equal((await put('/srv/guarded', 'five', { 'if-match': 'no quotes' })).status, 400);
  t.equal(await api.sh(id, 'cat /srv/guarded'), 'two');
});

t.test('names, attributes and rights', async (t) => {
  t.match(await post('/mkdir', { path: '/srv/a/b' }), {
    status: 201,
    body: { type: 'directory', mode: '0755' },
  });
  t.match(await post('/mkdir', { path: '/srv/a/b' }), { status: 409, body: { code: 'conflict' } });
  t.match(await post('/mkdir', { path: '/srv/a/b', may_exist: true }), { status: 201 });
  t.equal((await put('/srv/a/b/file', 'text')).status, 200);
  t.match(await post('/copy', { path: '/srv/a', to: '/srv/c' }), { status: 400 });
  t.match(await post('/copy', { path: '/srv/a', to: '/srv/c', recursive: true }), {
    status: 201,
    body: { left_out: 0 },
  });
  t.match(await post('/move', { path: '/srv/c/b', to: '/srv/d' }), { status: 200, body: { path: '/srv/d' } });
  t.match(await post('/move', { path: '/srv/d/file', to: '/tmp/file' }), { status: 200 });
  t.match(await post('', { path: '/tmp/file', mode: '0600', owner: '1234:100' }, 'PATCH'), {
    status: 200,
    body: { mode: '0600' },
  });
  t.equal(await api.sh(id, 'stat -c "%a %u:%g" /tmp/file; cat /tmp/file'), '600 1234:100\ntext');
  const remove = (query: Record<string, string>) => ask('', query, { method: 'DELETE' });
  t.equal((await remove({ path: '/srv/a' })).status, 409);
  t.same(await (await remove({ path: '/srv/a', recursive: 'true' })).json(), { removed: 3 });
  t.equal((await remove({ path: '/srv/a' })).status, 404);
  await api.sh(id, 'mkdir -m 777 /srv/open; echo secret > /root/secret; chmod 600 /root/secret');
  const nobody = { user: 'nobody' };
  t.equal((await put('/srv/mine', 'x', {}, nobody)).status, 400);
  t.match(await (await put('/srv/open/mine', 'x', {}, nobody)).json(), { user: 'nobody' });
  t.equal((await ask('/content', { path: '/root/secret', ...nobody })).status, 400);
  t.equal((await ask('/content', { path: '/../root/secret', root: '/srv' })).status, 404);
  t.equal((await ask('/stat', { path: '/', user: 'no-such-user' })).status, 400);
  await api.sh(id, 'touch "$(printf "/srv/open/\\377")"');
  const { entries } = (await (await ask('/list', { path: '/srv/open' })).json()) as {
    entries: { path_base64?: string; name: string }[];
  };
  const odd = entries.find(({ path_base64 }) => path_base64 !== undefined);
  t.equal(odd?.name, '\ufffd');
  t.equal((await remove({ path_base64: String(odd?.path_base64) })).status, 200);
  t.equal(await api.sh(id, 'ls -A /srv/open'), 'mine');
});

t.test('a full disk leaves the old content, and nothing else', async (t) => {
  await api.sh(id, 'mkdir /srv/small; mount -t tmpfs -o size=8m none /srv/small');
  await put('/srv/small/file', 'old');
  const full = await put('/srv/small/file', Buffer.alloc(20_000_000));
  t.equal(full.status, 400);
  t.match(await full.json(), { error: /disk is full/ });
  t.equal(await api.sh(id, 'cat /srv/small/file; ls -A /srv/small'), 'oldfile');
});
