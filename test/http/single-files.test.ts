// Single files over HTTP: conditions and ranges, forms of paths, and answers of a guest that is not trusted.
import t from 'tap';
import { FILE } from './fake-sandboxes.ts';
import { ask, makeApp } from './support.ts';

t.test('conditions and ranges decide the status', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const url = `/sandboxes/${id}/files/content?path=/x`;
  let cancelled = 0;
  const asked: unknown[] = [];
  let known = {};
  sandboxes.onRead = async ({ first, last, lastBytes }) => {
    asked.push({ first, last, lastBytes });
    return { body: { next: async () => undefined, cancel: () => void cancelled++ }, entry: FILE, ...known };
  };
  const size = { sizeBytes: 10, contentBytes: 0, offsetBytes: 0 };
  for (const [headers, status, facts = {}] of [
    [{}, 200],
    [{ 'if-match': '"1.2"' }, 200],
    [{ 'if-match': '"0", "1.2"' }, 200],
    [{ 'if-match': '*' }, 200],
    [{ 'if-match': '"0"' }, 412],
    [{ 'if-match': 'W/"1.2"' }, 412],
    [{ 'if-match': '1.2' }, 400],
    [{ 'if-match': Array(65).fill('"0"').join() }, 400],
    [{ 'if-none-match': '"1.2"' }, 304],
    [{ 'if-none-match': 'W/"1.2"' }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': '"0"' }, 200],
    [{ range: 'bytes=0-4' }, 206, { contentBytes: 5 }],
    [{ range: 'bytes=-4' }, 206, { contentBytes: 4, offsetBytes: 6 }],
    [{ range: 'bytes=10-' }, 416],
    [{ range: 'bytes=0-4', 'if-range': '"1.2"' }, 206, { contentBytes: 5 }],
    [{ range: 'bytes=0-4', 'if-range': '"0"' }, 200, { contentBytes: 5 }],
    [{ range: 'bytes=4-0' }, 200],
    [{ range: 'bytes=0-1,3-4' }, 200],
    [{ range: 'lines=0-4' }, 200],
    [{ range: 'bytes=-' }, 200],
  ] as const) {
    known = { ...size, ...facts };
    const response = await app.request(url, { headers });
    t.equal(response.status, status, JSON.stringify(headers));
    await response.arrayBuffer();
    if (status === 206) t.match(response.headers.get('content-range'), /^bytes \d+-\d+\/10$/);
    if (status === 416) t.equal(response.headers.get('content-range'), 'bytes */10');
    if (status === 304) t.equal(response.headers.get('etag'), '"1.2"');
  }
  t.equal(cancelled, 7, 'what is not sent is given up');
  known = {};
  t.equal((await app.request(url, { headers: { range: 'bytes=0-4' } })).status, 200, 'no size, no ranges');
  asked.length = 0;
  const head = await app.request(url, { method: 'HEAD', headers: { range: 'bytes=0-4' } });
  t.same([head.status, asked], [200, [{ first: undefined, last: undefined, lastBytes: undefined }]]);
});

t.test('a path has one form, and bad parameters are named', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const base = `/sandboxes/${id}/files`;
  const bytes = Buffer.from('/\xff', 'latin1').toString('base64url');
  const found = await ask(app, 'GET', `${base}/stat?path_base64=${bytes}`);
  t.match(found.body, {
    path: '/\ufffd',
    name: '\ufffd',
    path_base64: Buffer.from('/\xff', 'latin1').toString('base64'),
  });
  t.same(sandboxes.fileCalls.at(-1)?.place?.path, Buffer.from('/\xff', 'latin1'));
  for (const [method, path, body, problem] of [
    ['GET', '/stat', undefined, /path is missing/],
    ['GET', '/stat?path=/x&path_base64=Lw', undefined, /exclude each other/],
    ['GET', '/stat?path=x', undefined, /absolute path/],
    ['GET', '/stat?path_base64=eA', undefined, /absolute path/],
    ['GET', '/stat?path_base64=!', undefined, /base64/],
    ['GET', `/stat?path=/${'x'.repeat(5000)}`, undefined, /path is longer than 4095/],
    ['GET', '/list?path=/&depth=0', undefined, /depth/],
    ['GET', '/list?path=/&limit=10001', undefined, /limit/],
    ['GET', '/list?path=/&cursor=%20', undefined, /cursor/],
    ['PUT', '/content?path=/x&mode=99', undefined, /octal/],
    ['POST', '/mkdir', {}, /path is missing/],
    ['POST', '/mkdir', [], /must be a JSON object/],
    [
      'POST',
      '/mkdir',
      { path: '/a\0b' },
      /^path must be an absolute path of the guest without a NUL character, got/,
    ],
    ['POST', '/mkdir', { path: `/${'x'.repeat(5000)}` }, /at most 4095/],
    ['POST', '/mkdir', { path: '/x', mode: 'rwx' }, /octal/],
    ['POST', '/mkdir', { path: '/x', parents: 'yes' }, /true or false/],
    ['POST', '/move', { path: '/x' }, /to is missing/],
    ['POST', '/move', {}, /^path is missing; [^;]*; to is missing; [^;]*$/],
    [
      'POST',
      '/copy',
      { path_base64: 'eA==', to: '/y', to_base64: 'L3k=' },
      /^path_base64 must.*; to and to_base64/,
    ],
    ['POST', '/copy', { path: '/x', to: 'y' }, /absolute path/],
    ['PATCH', '', { path: '/x', modified_at: 'yesterday' }, /modified_at/],
    ['DELETE', '', undefined, /path is missing/],
  ] as const) {
    const { status, error } = await ask(app, method, `${base}${path}`, body && JSON.stringify(body));
    t.equal(status, 400, `${method} ${path.slice(0, 60)}`);
    t.match(error, problem);
  }
  const part = { method: 'PUT', body: 'x', headers: { 'content-range': 'bytes 0-0/9' } };
  t.equal((await app.request(`${base}/content?path=/x`, part)).status, 400, 'a part is not the whole');
});

t.test('a page has no more than was asked for, and goes on behind its last entry', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const entries = ['a', 'b', 'c'].map((name) => ({ ...FILE, path: Buffer.from(name) }));
  sandboxes.onFileCall = async () => ({ entries, hasMore: true, count: 0 });
  const { body } = await ask(app, 'GET', `/sandboxes/${id}/files/list?path=/d/&limit=2`);
  t.match(body, {
    entries: [{ path: '/d/a' }, { path: '/d/b' }],
    next_cursor: Buffer.from('b').toString('base64url'),
  });
  sandboxes.onFileCall = async () => ({ entries: [], hasMore: true, count: 0 });
  t.same((await ask(app, 'GET', `/sandboxes/${id}/files/list?path=/d`)).body, { entries: [] });
  t.equal((await ask(app, 'GET', `/sandboxes/${id}/files/stat?path=/d`)).status, 502);
});
