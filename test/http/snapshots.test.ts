// Snapshots and forks over the app, without sockets and guests.
import { MAX_COMPARISONS } from '@sandboxd/api';
import t from 'tap';
import type { ComparePosition } from '../../host-agent/src/sandboxes/saved/compare-disks.ts';
import { makeApp, serve } from './support.ts';

const request = async (
  app: ReturnType<typeof makeApp>['app'],
  method: string,
  path: string,
  body?: string,
) => {
  const response = await app.request(path, { method, ...(body !== undefined && { body }) });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
};

t.test('the life of a snapshot', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  t.same(await request(app, 'GET', '/snapshots'), { status: 200, body: { snapshots: [] } });
  const taken = await request(app, 'POST', `/sandboxes/${id}/snapshot`);
  t.match(taken, { status: 201, body: { source_id: id, created_at: '2024-05-06T07:08:09.010Z' } });
  t.same(
    Object.keys(taken.body).sort(),
    ['created_at', 'dir', 'id', 'mem_path', 'memory_mib', 'rootfs_path', 'source_id', 'state_path', 'vcpus'],
    'every field is present',
  );
  t.same(await request(app, 'GET', `/snapshots/${taken.body.id}`), {
    status: 200,
    body: { ...taken.body, disk_bytes: 8192, unique_bytes: 4096 },
  });
  const forked = await request(app, 'POST', `/snapshots/${taken.body.id}/fork`);
  t.match(forked, { status: 201, body: { sandboxes: [{ source_snapshot_id: taken.body.id }] } });
  t.equal((await request(app, 'DELETE', `/snapshots/${taken.body.id}`)).status, 204);
  t.equal((await request(app, 'DELETE', `/snapshots/${taken.body.id}`)).status, 404);
});

t.test('the body’s count wins, and an invalid one in the query is refused nevertheless', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = await sandboxes.snapshot(sandboxes.add().id);
  const count = async (query: string, body?: string) => {
    const answer = await request(app, 'POST', `/snapshots/${id}/fork${query}`, body);
    return answer.status === 201 ? answer.body.sandboxes.length : answer.status;
  };
  t.equal(await count(''), 1);
  t.equal(await count('?count=3'), 3);
  t.equal(await count('?count=3', '{"count": 2}'), 2);
  t.equal(await count('?count=3', '{"count": 0}'), 3);
  t.equal(await count('?count=3', 'null'), 3);
  t.equal(await count('?count=64'), 64);
  t.equal(await count('?count='), 1);
  for (const query of ['?count=0', '?count=65', '?count=-1', '?count=1e1', '?count=two']) {
    t.equal(await count(query, '{"count": 1}'), 400, query);
  }
  for (const body of ['{"count": 65}', '{"count": -1}', '{"count": "3"}', '[]', '{'])
    t.equal(await count('', body), 400, body);
  t.equal(await count('', '{"publish": []}'), 1);
  for (const body of ['{"publish": [{}]}', '{"publish": [{}], "count": 2}', '{"publish": 3}'])
    t.equal(await count('', body), 400, body);
});

t.test('ids, methods and unknown things', async (t) => {
  const { app } = makeApp();
  for (const [method, path, status] of [
    ['GET', '/snapshots/snap_x', 400],
    ['GET', '/snapshots/sbx_0000000000000', 400],
    ['DELETE', '/snapshots/snap_x', 400],
    ['POST', '/snapshots/snap_x/fork', 400],
    ['POST', '/sandboxes/nope/snapshot', 400],
    ['GET', '/snapshots/snap_0000000000000', 404],
    ['GET', '/snapshots/snap_0000000000000/tree', 404],
    ['GET', '/snapshots/snap_0000000000000/diff', 405],
    ['GET', '/sandboxes/sbx_0000000000000/export', 404],
    ['POST', '/snapshots/snap_0000000000000/fork', 404],
    ['POST', '/sandboxes/sbx_0000000000000/snapshot', 404],
    ['POST', '/snapshots', 405],
    ['GET', '/snapshots/snap_0000000000000/fork', 405],
    ['GET', '/sandboxes/sbx_0000000000000/snapshot', 405],
  ] as const) {
    const answer = await request(app, method, path);
    t.equal(answer.status, status, `${method} ${path}`);
    t.type(answer.body.error, 'string');
  }
});

t.test('files that differ', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = await sandboxes.snapshot(sandboxes.add().id);
  const asked: ComparePosition[] = [];
  const file = { kind: 'file', mode: 0o644, uid: 0, gid: 7, sizeBytes: 3 } as const;
  const odd = Buffer.from('/a\n\xff', 'latin1');
  sandboxes.onCompare = async (position) => {
    asked.push(position);
    if (position.after) return { files: [{ path: Buffer.from('/'), after: file, differs: [] }] };
    return {
      files: [
        { path: odd, before: { kind: 'directory', mode: 0o1777, uid: 1, gid: 2 }, differs: [] },
        { path: Buffer.from('/b'), before: file, after: { ...file, sizeBytes: 4 }, differs: ['content'] },
      ],
      next: odd,
    };
  };
  const ask = (body: string) => request(app, 'POST', `/snapshots/${id}/diff`, body);
  const { status, body } = await ask(`{"with": "${id}"}`);
  t.equal(status, 200);
  const shown = { kind: 'file', mode: '0644', uid: 0, gid: 7 };
  t.strictSame(body, {
    files: [
      {
        path: '/a\n\ufffd',
        path_base64: odd.toString('base64'),
        change: 'removed',
        kind: 'directory',
        mode: '1777',
        uid: 1,
        gid: 2,
      },
      {
        path: '/b',
        change: 'changed',
        ...shown,
        size_bytes: 4,
        differs: ['content'],
        before: { ...shown, size_bytes: 3 },
      },
    ],
    next_cursor: odd.toString('base64url'),
  });
  const last = await ask(`{"with": "${id}", "limit": 5, "cursor": "${body.next_cursor}"}`);
  t.strictSame(last.body, { files: [{ path: '/', change: 'added', ...shown, size_bytes: 3 }] });
  t.strictSame(asked, [
    { from: id, to: id, limit: 1000, after: undefined },
    { from: id, to: id, limit: 5, after: odd },
  ]);
  for (const wrong of ['', '{}', '{"with": 3}', '{"with": "snap_x"}', '{"with": "A"}', '{"with": ""}'])
    t.equal((await ask(wrong)).status, 400, wrong);
  for (const wrong of ['"limit": 0', '"limit": 10001', '"cursor": "!"', '"cursor": 1'])
    t.equal((await ask(`{"with": "${id}", ${wrong}}`)).status, 400, wrong);
  t.equal((await ask('{"with": "snap_0000000000000"}')).status, 404);
});

t.test('comparisons beyond the limit of a client, and one whose client hangs up', async (t) => {
  const { url, sandboxes } = await serve(t);
  const { id } = await sandboxes.snapshot(sandboxes.add().id);
  const ended: Promise<unknown>[] = [];
  sandboxes.onCompare = (_position, signal) => {
    const aborted = new Promise<never>((_resolve, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason));
    });
    ended.push(aborted.catch(() => 'ended'));
    return aborted;
  };
  const clients = Array.from({ length: MAX_COMPARISONS }, () => new AbortController());
  const ask = (signal?: AbortSignal) =>
    fetch(`${url}/snapshots/${id}/diff`, {
      method: 'POST',
      body: `{"with": "${id}"}`,
      ...(signal && { signal }),
    });
  const waiting = clients.map(({ signal }) => ask(signal).catch(() => undefined));
  while (ended.length < MAX_COMPARISONS) await new Promise((resolve) => setTimeout(resolve, 10));
  t.equal((await ask()).status, 503);
  for (const client of clients) client.abort();
  t.strictSame(new Set(await Promise.all(ended)), new Set(['ended']));
  await Promise.all(waiting);
});
