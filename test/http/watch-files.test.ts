// Watches over HTTP: forms of the answer, parameters, the library and the command.
import { Client } from '@sandboxd/client';
import t from 'tap';
import { runCommand } from '../support/command.ts';
import { watchOf } from './fake-watch.ts';
import { ask, makeApp, serve } from './support.ts';

const WATCHED = watchOf([
  { type: 'create', path: 'a\x1b[2J', isDirectory: true },
  { type: 'write', path: '\xff', isClosed: true },
  { type: 'rename', path: 'b', from: 'a' },
]);
const END = { type: 'end', reason: 'removed', message: /was removed/ };

t.test('lines, server-sent events, and a head', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.onWatch = WATCHED;
  const path = `/sandboxes/${id}/files/watch?path=/srv/`;
  const lines = await app.request(path, { headers: { accept: 'application/x-ndjson' } });
  t.equal(lines.headers.get('content-type'), 'application/x-ndjson');
  const events = (await lines.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.match(events, [
    { type: 'armed', directories: 1 },
    { type: 'create', path: '/srv/a\x1b[2J', directory: true },
    { type: 'write', path: '/srv/\ufffd', path_base64: /./, closed: true },
    { type: 'rename', path: '/srv/b', from: '/srv/a' },
    END,
  ]);
  const messages = await app.request(path);
  t.equal(messages.headers.get('content-type'), 'text/event-stream');
  t.same(
    [...(await messages.text()).matchAll(/^data: (.*)\n\n/gm)].map(([, json = '']) => JSON.parse(json)),
    events,
  );
  const head = await app.request(path, { method: 'HEAD' });
  t.same([head.status, await head.text()], [200, '']);
});

t.test('parameters of a watch, and the owner of a push', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const asked: unknown[] = [];
  sandboxes.onWatch = (watch, events) => {
    asked.push(watch);
    return WATCHED(watch, events);
  };
  const base = `/sandboxes/${id}/files`;
  await (await app.request(`${base}/watch?path=/x&root=/srv&user=bob&recursive=true`)).text();
  const place = { path: Buffer.from('/x'), root: Buffer.from('/srv'), user: 'bob' };
  t.same(asked, [{ place, recursive: true }]);
  for (const [query, problem] of [
    ['', /path is missing/],
    ['path=x', /absolute path/],
    ['path=/x&path_base64=Lw', /exclude each other/],
  ] as const) {
    const { status, error } = await ask(app, 'GET', `${base}/watch?${query}`);
    t.equal(status, 400, query);
    t.match(error, problem);
  }
  const owners: unknown[] = [];
  sandboxes.onPush = async (_path, _read, _signal, owner) => {
    owners.push(owner);
    return { files: 0, bytes: 0 };
  };
  for (const query of ['path=/x', 'path=/x&owner=bob:users', 'path=/x&owner='])
    t.equal((await ask(app, 'POST', `${base}?${query}`)).status, 200, query);
  t.same(owners, [undefined, 'bob:users', undefined]);
  t.equal((await ask(app, 'POST', `${base}?path=/x&owner=${'x'.repeat(300)}`)).status, 400);
});

t.test('the library has it as a loop, the command as lines', async (t) => {
  const { url, sandboxes } = await serve(t);
  sandboxes.onWatch = WATCHED;
  const { id } = sandboxes.add();
  const events: string[] = [];
  for await (const { type } of new Client({ host: url }).sandboxes.get(id).files.watch('/srv'))
    events.push(type);
  t.same(events, ['armed', 'create', 'write', 'rename', 'end']);
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir({}) };
  const shown = await runCommand(['watch', '-R', `${id}:/srv`], env);
  t.match(shown, { code: 1, stderr: /^sandbox: \/srv is not watched any more: the directory was removed/ });
  t.equal(
    shown.stdout,
    'armed    1 directory\ncreate   /srv/a\\u001b[2J/\nwrite    /srv/\ufffd (closed)\nrename   /srv/a → /srv/b\n',
  );
  const json = await runCommand(['--json', 'watch', `${id}:/srv`], env);
  t.match(
    json.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .at(-1),
    END,
  );
});
