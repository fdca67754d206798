// The sandbox as an object over HTTP: names, labels and environment in requests, filters, changes, deletes of several.
import t from 'tap';
import { ask, makeApp } from './support.ts';

const post = (app: ReturnType<typeof makeApp>['app'], body: unknown) =>
  ask(app, 'POST', '/sandboxes', typeof body === 'string' ? body : JSON.stringify(body));

function labels(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']));
}

t.test('names, labels and environments that are none are refused, with what is wrong', async (t) => {
  const { app, sandboxes } = makeApp();
  for (const [body, error] of [
    [{ name: 'Web' }, /^name must be a DNS label: .*got "Web"$/],
    [{ name: '-web' }, /^name must be a DNS label/],
    [{ name: 'a'.repeat(64) }, /^name must be a DNS label/],
    [{ name: 'w.x' }, /^name must be a DNS label/],
    [{ name: 'wéb' }, /^name must be a DNS label/],
    [{ name: 'web\n' }, /^name must be a DNS label/],
    [{ name: 1 }, /^name must be a DNS label/],
    [{ labels: labels(65) }, /^labels must have at most 64 labels, got 65$/],
    [{ labels: [] }, /^labels must be an object of strings/],
    [{ labels: 'a=b' }, /^labels must be an object of strings/],
    [{ labels: { a: 1 } }, /^labels.a must be at most 63 letters/],
    [{ labels: { a: null } }, /^labels.a must be at most 63/],
    [{ labels: { a: 'b c' } }, /^labels.a must be at most 63/],
    [{ labels: { a: '-b' } }, /^labels.a must be at most 63/],
    [{ labels: { a: 'ü' } }, /^labels.a must be at most 63/],
    [{ labels: { a: 'x'.repeat(64) } }, /^labels.a must be at most 63/],
    [{ labels: { '': 'x' } }, /^labels must have keys of Kubernetes' syntax.*got ""/],
    [{ labels: { 'a/b/c': 'x' } }, /^labels must have keys/],
    [{ labels: { 'A.example/b': 'x' } }, /^labels must have keys/],
    [{ labels: { '/b': 'x' } }, /^labels must have keys/],
    [{ labels: { [`${'a.'.repeat(127)}a/b`]: 'x' } }, /^labels must have keys/],
    ['{"labels": {"__proto__": "x"}}', /^labels must have keys of .*got "__proto__"/],
    [
      {
        labels: Object.fromEntries(
          Object.keys(labels(64)).map((key) => [`${key}${'x'.repeat(58)}`, 'v'.repeat(63)]),
        ),
      },
      200,
    ],
    [
      {
        labels: Object.fromEntries(
          Object.keys(labels(64)).map((key) => [`${'a.'.repeat(50)}b/${key}`, 'v'.repeat(63)]),
        ),
      },
      /^labels must have at most 8192 characters in keys and values, got \d+$/,
    ],
    [{ env: { 'A=B': 'x' } }, /^env must have names that/],
    [{ env: { A: 1 } }, /^env.A must be a string/],
    [{ env: { A: 'x\0' } }, /^env.A must be a string without a NUL/],
    [{ env: { A: 'x'.repeat(65_536) } }, /^env must have at most 65536 characters in names and values$/],
    [{ if_exists: 'return' }, /^if_exists return needs a name/],
    [{ if_exists: 'replace', name: 'a' }, /^if_exists must be one of error, return/],
  ] as const) {
    const answer = await post(app, body);
    if (error === 200) t.equal(answer.status, 201, answer.error);
    else t.match(answer, { status: 400, error });
    t.ok((answer.error ?? '').length < 1500);
    t.notMatch(answer.error, /x{100}/);
  }
  t.equal(sandboxes.created.length, 1);
});

t.test('names that every object has are ordinary keys', async (t) => {
  const { app, sandboxes } = makeApp();
  await post(
    app,
    '{"labels": {"constructor": "a", "toString": ""}, "env": {"__proto__": "own"}, "name": "constructor"}',
  );
  t.match(sandboxes.created[0], { name: 'constructor', labels: { constructor: 'a', toString: '' } });
  t.same(Object.entries(sandboxes.created[0]?.env ?? {}), [['__proto__', 'own']]);
  sandboxes.add();
  const list = async (query: string) => {
    const { body } = await ask(app, 'GET', `/sandboxes?${query}`);
    return (body as { sandboxes: unknown[] }).sandboxes.length;
  };
  for (const key of ['constructor', 'toString', 'hasOwnProperty', 'valueOf'])
    t.equal(await list(`label=${key}`), 0);
});

t.test('all filters must match; label may be repeated', async (t) => {
  const { app, sandboxes } = makeApp();
  const [a, b, c] = [sandboxes.add(), sandboxes.add(), sandboxes.add()];
  Object.assign(a, { labels: { team: 'x', tier: '' }, name: 'web' });
  Object.assign(b, { labels: { team: 'y' }, state: 'failed' });
  Object.assign(c, { rootfs: { kind: 'image', name: 'nginx:1', imageDigest: 'sha256:ab' } });
  for (const [query, ids] of [
    ['', [a, b, c]],
    ['label=team', [a, b]],
    ['label=team=x', [a]],
    ['label=team%3Dx', [a]],
    ['label=team=x&label=tier', [a]],
    ['label=team=x&label=team=y', []],
    ['label=tier=', [a]],
    ['label=team=', []],
    ['state=failed', [b]],
    ['state=running', [a, c]],
    ['state=', [a, b, c]],
    ['name=web', [a]],
    ['name=api', []],
    ['name=WEB', []],
    ['profile=base', [a, b]],
    ['profile=nginx:1', []],
    ['image=nginx:1', [c]],
    ['image=docker.io/library/nginx:1', [c]],
    ['image=sha256:ab', [c]],
    ['image=nginx', []],
    ['image=base', []],
    ['label=team&state=failed&profile=base', [b]],
  ] as const) {
    const { status, body } = await ask(app, 'GET', `/sandboxes?${query}`);
    t.equal(status, 200, query);
    t.same(
      (body as { sandboxes: { id: string }[] }).sandboxes.map(({ id }) => id),
      ids.map(({ id }) => id),
      query,
    );
  }
  for (const query of [
    'label=',
    'label=a&label=',
    'label=%3Dx',
    'label=a=b=c',
    'label=a%20b',
    'state=gone',
    'label=__proto__',
  ])
    t.match(
      await ask(app, 'GET', `/sandboxes?${query}`),
      { status: 400, error: /^query (label|state) must be/ },
      query,
    );
  const many = Array.from({ length: 65 }, () => 'label=a').join('&');
  t.match(await ask(app, 'GET', `/sandboxes?${many}`), { status: 400, error: /64 at most/ });
});

t.test('pages of a filtered list have each entry once, also while others are made and deleted', async (t) => {
  const { app, sandboxes } = makeApp();
  const all = Array.from({ length: 20 }, (_, at) =>
    Object.assign(sandboxes.add(), {
      createdAt: new Date(at >> 1),
      labels: at % 2 === 0 ? { even: '' } : {},
    }),
  );
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const query = `label=even&limit=3${cursor === undefined ? '' : `&cursor=${cursor}`}`;
    const { body } = (await ask(app, 'GET', `/sandboxes?${query}`)) as unknown as {
      body: { sandboxes: { id: string }[]; next_cursor?: string };
    };
    seen.push(...body.sandboxes.map(({ id }) => id));
    cursor = body.next_cursor;
    const [first] = seen;
    if (seen.length === 3) await sandboxes.delete(first ?? '');
    Object.assign(sandboxes.add(), { createdAt: new Date(0), labels: { even: '' } });
  } while (cursor !== undefined);
  const even = all.filter((_, at) => at % 2 === 0).map(({ id }) => id);
  t.same(seen.filter((id) => even.includes(id)).toSorted(), even.toSorted());
  t.equal(new Set(seen).size, seen.length);
  const other = Buffer.from(`${'9'.repeat(16)}:sbx_0000000000000`).toString('base64url');
  t.match(await ask(app, 'GET', `/sandboxes?label=odd&cursor=${other}`), {
    status: 200,
    body: { sandboxes: [] },
  });
  t.match(await ask(app, 'GET', '/sandboxes?cursor=%00'), { status: 400 });
});

t.test('a delete of several needs a filter, and ignores nothing', async (t) => {
  const { app, sandboxes } = makeApp();
  const [a, b] = [sandboxes.add(), sandboxes.add()];
  Object.assign(a, { labels: { team: 'x' } });
  for (const query of [
    '',
    '?',
    '?limit=5',
    '?label=',
    '?name=&profile=base',
    '?profile=base&label=',
    '?nmae=web&profile=base',
    '?profile=base&profile=other',
    '?state=&label=team',
    '?LABEL=team',
    '?label=team&cursor=x',
    '?label',
    '?name',
  ])
    t.match(await ask(app, 'DELETE', `/sandboxes${query}`), { status: 400 }, query);
  t.equal(sandboxes.list().length, 2);
  t.match(await ask(app, 'DELETE', '/sandboxes'), {
    error: /^the parameters must have at least one of label, state, name, profile, image: without a filter/,
  });
  t.match(await ask(app, 'DELETE', '/sandboxes?label=team=y'), {
    status: 200,
    body: { deleted: [], failed: [] },
  });
  t.match(await ask(app, 'DELETE', '/sandboxes?label=team&label=team=x'), {
    status: 200,
    body: { deleted: [a.id], failed: [] },
  });
  t.same(
    sandboxes.list().map(({ id }) => id),
    [b.id],
  );
});

t.test('a change says what null and absent mean, and nothing else', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const patch = (body: unknown) => ask(app, 'PATCH', `/sandboxes/${id}`, JSON.stringify(body));
  t.equal((await patch({})).status, 200);
  t.equal(
    (
      await patch({
        name: null,
        labels: { a: null, b: 'c' },
        timeout_s: null,
        idle_timeout_s: 5,
        idle_action: null,
        timeout_action: 'pause',
        auto_resume: null,
      })
    ).status,
    200,
  );
  t.same(sandboxes.patches, [
    {
      name: undefined,
      labels: undefined,
      timeoutS: undefined,
      idleTimeoutS: undefined,
      idleAction: undefined,
      timeoutAction: undefined,
      autoResume: undefined,
    },
    {
      name: null,
      labels: { a: null, b: 'c' },
      timeoutS: 0,
      idleTimeoutS: 5,
      idleAction: 'delete',
      timeoutAction: 'pause',
      autoResume: true,
    },
  ]);
  for (const [body, error] of [
    [{ name: '' }, /^name must be a DNS label/],
    [{ labels: { a: 1 } }, /^labels.a must be/],
    [{ timeout_s: -1 }, /^timeout_s must be an integer/],
    [{ timeout_s: 2 ** 31 }, /^timeout_s must be an integer/],
    [{ idle_timeout_s: '5' }, /^idle_timeout_s must be/],
    [{ idle_action: 'keep' }, /^idle_action must be one of delete, snapshot/],
    [{ timeout_action: 'keep' }, /^timeout_action must be one of delete, pause/],
    [{ auto_resume: 'no' }, /^auto_resume must be true or false/],
    [[], /^the body must be a JSON object/],
  ] as const)
    t.match(await patch(body), { status: 400, error }, JSON.stringify(body));
  t.match(
    (await patch({ env: { A: '1' } })).body,
    { warnings: ['unknown field env'] },
    'the environment is of the create',
  );
});
