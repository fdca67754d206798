// Every route of the table, in every form that it can come in, with every kind of key; and what a key lets pass.
import { includesOperation, OPERATIONS, type Operation } from '@sandboxd/api';
import t, { type Test } from 'tap';
import WebSocket from 'ws';
import { Attempts } from '../../host-agent/src/keys/index.ts';
import { until } from '../support/until.ts';
import { allSamples, type Keyring, NARROW, openKeyring, READ_ONLY, type Sample } from './keyed.ts';
import { ask, makeApp, RawClient, type Served, serve } from './support.ts';

t.setTimeout(300_000);

const bearer = (key: string): string => `Authorization: Bearer ${key}\r\n`;

/**
 * The samples in all forms; of a turn, each route in one of its forms, which turns take one after the other. A soak run
 * tries each form each turn.
 */
function samplesOf(id: string, turn?: number): readonly Sample[] {
  const all = allSamples(id);
  if (turn === undefined || process.env.SOAK === '1') return all;
  return [...Map.groupBy(all, ({ name }) => name).values()].flatMap(
    (forms, at) => forms[(turn + at) % forms.length] ?? [],
  );
}

type Seen = { readonly status: number; readonly head: string; readonly text: string };

/** What the bytes are answered with, where a 100 is none. */
async function answer(t: Test, port: number, bytes: string): Promise<Seen> {
  const client = new RawClient(t, port);
  client.write(bytes);
  const text = () => client.text.replace(/^HTTP\/1.1 100 .*?\r\n\r\n/s, '');
  await until(() => text().includes('\r\n\r\n') || client.isEnded, `an answer to ${bytes}`);
  client.socket.destroy();
  return { status: Number(text().slice(9, 12)), head: text().split('\r\n\r\n', 1)[0] ?? '', text: text() };
}

async function badKeys(keyring: Keyring): Promise<Record<string, string>> {
  const revoked = await keyring.make({ name: 'revoked' });
  await keyring.registry.revoke('revoked');
  const good = await keyring.make({ name: 'good' });
  const wrong = good.slice(0, -1) + (good.endsWith('A') ? 'B' : 'A');
  const [{ hash } = { hash: '' }] = keyring.registry.list();
  return {
    none: '',
    unknown: bearer(`sbk_${'A'.repeat(32)}`),
    'of another end': bearer(wrong),
    'too short': bearer(good.slice(0, -1)),
    'too long': bearer(`${good}A`),
    'no key': bearer('nonsense'),
    empty: 'Authorization: Bearer \r\n',
    'another scheme': `Authorization: Basic ${Buffer.from(`x:${good}`).toString('base64')}\r\n`,
    'a leaked hash': bearer(hash),
    expired: bearer(await keyring.make({ name: 'expired', expiresAtMs: 1 })),
    revoked: bearer(revoked),
  };
}

t.test(
  'no route accepts a request without a valid key, however it is sent, and no body is requested',
  async (t) => {
    const keyring = await openKeyring(t);
    const served = await serve(t, { authenticator: keyring.authenticator });
    const { id } = served.sandboxes.add();
    const bad = await badKeys(keyring);
    for (const [turn, [what, header]] of Object.entries(bad).entries()) {
      // Without a key all forms; a bad key is read in the same way in each, so one form of a route per turn.
      for (const { name, route, transport, bytes } of samplesOf(id, what === 'none' ? undefined : turn)) {
        const { status, head } = await answer(t, served.port, bytes(header));
        const where = `${name}, ${transport}, ${what}`;
        if (route.access === 'public') t.equal(status, 200, where);
        else {
          t.equal(status, 401, where);
          t.match(head, /\r\nwww-authenticate: Bearer(?:\r\n|$)/i, where);
        }
      }
    }
    const others = [
      'GET /nowhere',
      'DELETE /healthz',
      'OPTIONS /sandboxes',
      'CONNECT x:1',
      'GET /sandboxes/x/y/z',
    ];
    for (const line of others) {
      const { status } = await answer(t, served.port, `${line} HTTP/1.1\r\nHost: x\r\n\r\n`);
      t.equal(status, 401, line);
    }
    const { status } = await answer(
      t,
      served.port,
      'POST /nowhere HTTP/1.1\r\nHost: x\r\nExpect: magic\r\n\r\n',
    );
    t.equal(status, 401, 'an unknown expectation');
    t.same(
      [served.sandboxes.created, served.sandboxes.execs, served.sandboxes.callers],
      [[], [], []],
      'nothing was done',
    );
  },
);

t.test('a browser’s WebSocket has its key in a protocol, good or bad', async (t) => {
  const keyring = await openKeyring(t);
  const { port, sandboxes } = await serve(t, { authenticator: keyring.authenticator });
  const { id } = sandboxes.add();
  const key = await keyring.make();
  const url = `ws://127.0.0.1:${port}/sandboxes/${id}/exec`;
  const open = (protocols: string[]) =>
    new Promise<string>((resolve) => {
      const socket = new WebSocket(url, protocols);
      socket.on('unexpected-response', (_, { statusCode }) => resolve(String(statusCode)));
      socket.on('error', (error) => resolve(error.message));
      socket.on('open', () => {
        resolve(`open ${socket.protocol}`);
        socket.terminate();
      });
    });
  t.equal(await open([`bearer.${key}`]), `open bearer.${key}`, 'one that was offered must be chosen');
  t.equal(await open([`bearer.${key}`, 'exec']), 'open exec', 'the key does not come back where it need not');
  t.equal(await open(['exec', `bearer.${key}`]), 'open exec');
  t.equal(await open(['bearer.sbk_nonsense']), '401');
  t.equal(await open(['exec']), '401');
  const limited = await keyring.make({ policy: READ_ONLY });
  t.equal(await open([`bearer.${limited}`]), '403');
  const plain = await answer(
    t,
    port,
    `GET /sandboxes HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Protocol: bearer.${key}\r\n\r\n`,
  );
  t.equal(plain.status, 200, 'it is a key, wherever it stands');
});

t.test(
  'an operation that the policy does not have is refused before path, body and existence are looked at',
  async (t) => {
    const keyring = await openKeyring(t);
    const { port, sandboxes } = await serve(t, { authenticator: keyring.authenticator });
    const { id } = sandboxes.add();
    const [nothing, reading, everything] = [
      await keyring.make({ policy: { operations: [] } }),
      await keyring.make({ policy: READ_ONLY }),
      await keyring.make(),
    ];
    const check = async ({ name, route, transport, bytes }: Sample): Promise<void> => {
      const { access } = route;
      const isFree = access === 'public' || access === 'any-key';
      const where = `${name}, ${transport}`;
      // The body comes only where it is due.
      const expect = async (key: string, isRefused: boolean, what: string): Promise<void> => {
        const { status } = await answer(t, port, bytes(bearer(key)) + (isRefused ? '' : '[1]  '));
        if (isRefused) t.equal(status, 403, `${where}, ${what}`);
        else t.ok(status > 100 && status !== 401 && status !== 403, `${where}, ${what}: ${status}`);
      };
      await expect(nothing, !isFree, 'nothing allowed');
      await expect(reading, !isFree && !includesOperation(['read'], access), 'read-only');
      await expect(everything, false, 'everything allowed');
    };
    for (const sample of allSamples(id)) await check(sample);
    const malformed = await answer(
      t,
      port,
      `DELETE /sandboxes/nonsense HTTP/1.1\r\nHost: x\r\n${bearer(reading)}\r\n`,
    );
    t.equal(malformed.status, 403, 'the policy goes before the shape of the id');
    for (const [line, status] of [
      ['GET /nowhere', 404],
      ['DELETE /healthz', 405],
      ['GET /sandboxes/nonsense', 400],
    ] as const)
      t.match(
        await answer(t, port, `${line} HTTP/1.1\r\nHost: x\r\n${bearer(reading)}\r\n`),
        { status },
        line,
      );
    t.match(await answer(t, port, `DELETE /sandboxes/${id} HTTP/1.1\r\nHost: x\r\n${bearer(reading)}\r\n`), {
      text: /operation delete is not among read; ask for less, or use another key/,
    });
  },
);

t.test(
  'an operation lets through its own routes and no other, in every form that they come in',
  async (t) => {
    const keyring = await openKeyring(t);
    const { port, sandboxes } = await serve(t, { authenticator: keyring.authenticator });
    const { id } = sandboxes.add();
    for (const [turn, operation] of OPERATIONS.entries()) {
      const key = await keyring.make({ policy: { operations: [operation] } });
      const open = new Set<string>();
      // All forms with three keys are in the test above.
      for (const { name, route, bytes, transport } of samplesOf(id, turn)) {
        if (route.access === 'public' || route.access === 'any-key') continue;
        const isOpen = includesOperation([operation], route.access);
        const { status } = await answer(t, port, bytes(bearer(key)) + (isOpen ? '[1]  ' : ''));
        t.equal(status !== 403, isOpen, `${operation}: ${name}, ${transport}: ${status}`);
        if (status !== 403) open.add(name);
      }
      const narrow = NARROW[operation];
      if (narrow !== undefined) t.same([...open].sort(), narrow, operation);
      if (operation === 'read')
        t.ok(
          [...(NARROW.view ?? []), 'readMetrics', 'readFile', 'readLogs'].every((name) => open.has(name)),
          'read keeps its meaning',
        );
    }
  },
);

t.test('permission to create or delete does not include images', async (t) => {
  const keyring = await openKeyring(t);
  const { app } = makeApp({ authenticator: keyring.authenticator });
  const statuses = async (key: string) => {
    const ask = async (method: string, path: string) => {
      const headers = { authorization: `Bearer ${key}` };
      return (await app.request(path, { method, headers, ...(method === 'POST' && { body: '{}' }) })).status;
    };
    return [
      await ask('POST', '/images'),
      await ask('POST', '/images/import'),
      await ask('DELETE', '/images/nginx'),
    ].map((status) => status !== 403);
  };
  const make = (operations: Operation[], more: object = {}) =>
    keyring.make({ policy: { operations }, ...more });
  t.same(await statuses(await make(['create', 'delete'])), [false, false, false]);
  t.same(await statuses(await make(['images'])), [true, true, true]);
  t.same(await statuses(await keyring.make({ policy: { max_vcpus: 1 } })), [true, true, true]);
  t.same(
    await statuses(await keyring.make({ policy: { allow_profiles: ['base'], operations: ['images'] } })),
    [false, false, false],
    'who boots certain profiles only',
  );
  t.same(await statuses(await keyring.make({ policy: { allow_profiles: [] } })), [false, false, false]);
});

t.test('two keys in one request are refused, valid ones included', async (t) => {
  const keyring = await openKeyring(t);
  const { port } = await serve(t, { authenticator: keyring.authenticator });
  const [a, b] = [await keyring.make(), await keyring.make()];
  for (const { bytes, name } of allSamples())
    t.equal((await answer(t, port, bytes(bearer(a) + bearer(b)))).status, 400, name);
});

t.test('a key in the wrong place of a request is not in the log', async (t) => {
  const keyring = await openKeyring(t);
  const { app, lines } = makeApp({ authenticator: keyring.authenticator });
  const key = await keyring.make();
  for (const path of [`/${key}`, `/sandboxes/${key}`, `/sandboxes?key=${key}`])
    await app.request(path, { headers: { authorization: `Bearer ${key}`, 'x-request-id': 'a' } });
  t.equal(lines.filter(({ msg }) => msg === 'request').length, 3);
  t.notMatch(JSON.stringify(lines), new RegExp(key.slice(4)));
});

t.test('each key alone takes any other operation of the table', async (t) => {
  const keyring = await openKeyring(t);
  const { app, sandboxes } = makeApp({ authenticator: keyring.authenticator });
  const { id } = sandboxes.add();
  const request = async (method: string, path: string, key: string, body?: string) =>
    (await app.request(path, { method, headers: { authorization: `Bearer ${key}` }, ...(body && { body }) }))
      .status;
  const key = await keyring.make({ policy: { operations: ['exec'] } });
  t.equal(await request('POST', `/sandboxes/${id}/exec`, key, '{"cmd":["true"]}'), 200);
  t.equal(await request('GET', `/sandboxes/${id}`, key), 403);
  t.equal(await request('GET', '/whoami', key), 200);
  t.match(sandboxes.callers.at(-1), { policy: { operations: ['exec'] } }, 'rooms below know who asks');
});

t.test('keys change beneath a daemon that is used', async (t) => {
  const keyring = await openKeyring(t);
  const { app } = makeApp({ authenticator: keyring.authenticator });
  const status = async (key?: string) =>
    (
      await app.request(
        '/sandboxes',
        key === undefined ? {} : { headers: { authorization: `bearer   ${key}` } },
      )
    ).status;
  t.equal(await status(), 200, 'without any key it is open');
  t.equal(await status('sbk_nonsense'), 200, 'whatever comes with the request');
  const first = await keyring.make({ name: 'first' });
  t.same([await status(), await status(first)], [401, 200], 'from the first key on it is not');
  const second = await keyring.make({ name: 'second' });
  await keyring.registry.revoke('first');
  t.same([await status(first), await status(second)], [401, 200]);
  await keyring.registry.revoke('second');
  t.same(
    [await status(first), await status(second), await status()],
    [401, 401, 401],
    'the last one does not open it',
  );
  const soon = await keyring.make({ name: 'soon', expiresAtMs: Date.now() + 100 });
  t.equal(await status(soon), 200);
  while ((await status(soon)) === 200) await new Promise((resolve) => setTimeout(resolve, 10));
  t.equal(await status(soon), 401, 'expired');
});

t.test('whoami says what holds for the caller', async (t) => {
  const keyring = await openKeyring(t);
  const use = { limit: 'max_sandboxes', of: 'tenant' as const, used: 1, max: 3 };
  const { app } = makeApp({ authenticator: keyring.authenticator, limitUse: () => [use] });
  const whoami = async (key: string) =>
    (await app.request('/whoami', { headers: { authorization: `Bearer ${key}` } })).json();
  t.same(await whoami(await keyring.make({ name: 'all' })), {
    scoped: false,
    key: { name: 'all' },
    usage: [use],
  });
  const expiresAtMs = Date.parse('2100-01-31T00:00:00Z');
  t.same(await whoami(await keyring.make({ name: 'of-acme', tenant: 'acme', expiresAtMs })), {
    scoped: true,
    policy: {},
    tenant: 'acme',
    key: { name: 'of-acme', tenant: 'acme', expires_at: '2100-01-31T00:00:00.000Z' },
    usage: [use],
  });
  const policy = { operations: ['read' as const], max_vcpus: 2 };
  t.match(await whoami(await keyring.make({ policy })), { scoped: true, policy });
  t.same((await ask(makeApp().app, 'GET', '/whoami')).body, { scoped: false });
});

t.test('wrong keys are answered ever later, right ones are not', async (t) => {
  const keyring = await openKeyring(t, new Attempts());
  const { port }: Served = await serve(t, { authenticator: keyring.authenticator });
  const key = await keyring.make();
  const request = async (text: string) => {
    const startedAt = performance.now();
    const { status } = await answer(t, port, `GET /whoami HTTP/1.1\r\nHost: x\r\n${bearer(text)}\r\n`);
    return { status, ms: performance.now() - startedAt };
  };
  const wrong = `sbk_${'A'.repeat(32)}`;
  const tries = [];
  for (let n = 0; n < 6; n++) tries.push(await request(wrong));
  t.ok(tries.every(({ status }) => status === 401));
  t.ok(
    (tries[3]?.ms ?? 0) >= 95 && (tries[4]?.ms ?? 0) >= 195 && (tries[5]?.ms ?? 0) >= 395,
    JSON.stringify(tries),
  );
  const held = request(wrong);
  const right = await request(key);
  t.equal(right.status, 200);
  let isAnswered = false;
  void held.then(() => {
    isAnswered = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  t.notOk(isAnswered, 'the right one came later and was answered first');
  t.equal((await held).status, 401);
});
