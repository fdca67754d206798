// Snapshots and forks over the app, without sockets and guests.
import t from 'tap';
import { makeApp } from './support.ts';

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
