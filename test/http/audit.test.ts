// What requests leave in the audit trail, and what they must not.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { includesOperation } from '@sandboxd/api';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type AuditEntry, AuditTrail, type RequestEntry } from '../../host-agent/src/audit/index.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { BODY, head, serveCat, stdin, stdinClose } from './cat.ts';
import { allSamples, openKeyring, READ_ONLY } from './keyed.ts';
import { makeApp, RawClient, serve } from './support.ts';

class Recorder {
  readonly entries: AuditEntry[] = [];
  write(entry: AuditEntry): void {
    this.entries.push(entry);
  }
  get requests(): readonly RequestEntry[] {
    return this.entries as RequestEntry[];
  }
}

t.setTimeout(120_000);

/** A trail on disk, as the daemon has it. */
async function openTrail(t: Test) {
  const root = mkdtempSync(join(tmpdir(), 'audit-'));
  t.teardown(() => rmSync(root, { recursive: true }));
  const anchors = { latest: () => undefined, put: async () => undefined };
  const trail = new AuditTrail({ dir: root, maxBytes: 2 ** 30, anchors, log: pino({ level: 'silent' }) });
  t.teardown(() => trail.close());
  const lines = () =>
    readdirSync(root).flatMap((name) => readFileSync(join(root, name), 'utf8').trim().split('\n'));
  return { trail, lines };
}

async function answered(t: Test, port: number, bytes: string): Promise<string> {
  const client = new RawClient(t, port);
  client.write(bytes);
  await until(() => client.text.includes('\r\n\r\n') || client.isEnded, 'an answer');
  client.socket.destroy();
  return client.text;
}

t.test('each route is recorded in each form, with the key and the result', async (t) => {
  const keyring = await openKeyring(t);
  const trail = new Recorder();
  const { port, sandboxes } = await serve(t, { authenticator: keyring.authenticator, audit: trail });
  const { id } = sandboxes.add();
  const key = await keyring.make({ name: 'reader', tenant: 'acme', policy: READ_ONLY });
  for (const { name, route, transport, bytes } of allSamples(id)) {
    const before = trail.entries.length;
    const { access } = route;
    // The body of what the key may ask is awaited.
    const isAsked = access === 'any-key' || (access !== 'public' && includesOperation(['read'], access));
    const body = isAsked && route.body !== undefined ? 'hello' : '';
    await answered(t, port, `${bytes(`Authorization: Bearer ${key}\r\n`)}${body}`);
    const isPublic = access === 'public';
    if (isPublic) {
      t.equal(trail.entries.length, before, `${name} is for everybody`);
      continue;
    }
    const [entry] = trail.requests.slice(before);
    t.match(
      entry,
      { route: name, request: /^req_/, address: '127.0.0.1', ms: Number },
      `${name}, ${transport}`,
    );
    if (!isAsked) {
      t.match(
        entry,
        { decision: 'denied', status: 403, operation: route.access, reason: /is not among read/ },
        `${name}, ${transport}`,
      );
    } else if (['checkHost', 'listHosts', 'readMetrics'].includes(name))
      t.match(entry, { decision: 'denied', status: 403, reason: /of all tenants/ }, name);
    else
      t.match(entry, { decision: 'allowed', key: 'reader', tenant: 'acme', key_id: /^[0-9a-f]{16}$/ }, name);
    if (route.path.startsWith('/sandboxes/:id')) t.same(entry?.ids, [id]);
  }
});

t.test('refusals before all routes are written down, too', async (t) => {
  const keyring = await openKeyring(t);
  await keyring.make();
  const trail = new Recorder();
  const { port, sandboxes } = await serve(t, { authenticator: keyring.authenticator, audit: trail });
  const { id } = sandboxes.add();
  const last = async (bytes: string) => {
    await answered(t, port, bytes);
    return trail.requests.at(-1);
  };
  t.match(await last('GET /sandboxes HTTP/1.1\r\nHost: evil.example\r\n\r\n'), {
    event: 'refused',
    route: 'listSandboxes',
    decision: 'denied',
    status: 403,
    reason: /evil.example/,
  });
  t.match(await last('GET /sandboxes HTTP/1.1\r\nHost: x\r\n\r\n'), {
    event: 'request',
    decision: 'unauthenticated',
    status: 401,
  });
  t.match(await last('GET /nowhere/secret-of-a-path HTTP/1.1\r\nHost: x\r\n\r\n'), {
    decision: 'unauthenticated',
    route: undefined,
  });
  t.match(await last(head(id)), {
    event: 'refused',
    route: 'exec',
    decision: 'unauthenticated',
    status: 401,
    ids: [id],
  });
  t.match(
    await last(`POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n`),
    { event: 'refused', route: 'createSandbox', status: 401 },
  );
  t.match(await last('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n'), {
    event: 'refused',
    decision: 'unauthenticated',
  });
  t.notMatch(JSON.stringify(trail.entries), /secret-of-a-path/);
});

t.test('a stream is known from its beginning, and again when it is over', async (t) => {
  const keyring = await openKeyring(t);
  const key = await keyring.make({ name: 'alice' });
  const trail = new Recorder();
  const { port, id } = await serveCat(t, { authenticator: keyring.authenticator, audit: trail });
  const client = new RawClient(t, port);
  client.write(head(id, `Content-Length: ${BODY.length}\r\nAuthorization: Bearer ${key}\r\n`) + BODY);
  client.write(stdin('x'));
  await until(() => client.text.includes('200 OK'), 'the reply');
  t.match(trail.requests, [
    { event: 'begun', key: 'alice', route: 'exec', operation: 'exec', ids: [id], status: 200 },
  ]);
  client.write(stdinClose);
  await client.ended();
  await until(() => trail.entries.length === 2, 'its end');
  t.match(trail.requests[1], { event: 'request', route: 'exec' });
  t.equal(trail.requests[0]?.request, trail.requests[1]?.request);
});

t.test('a create is recorded with its effective limits', async (t) => {
  const keyring = await openKeyring(t);
  const trail = new Recorder();
  const { manager } = await startMemoryDaemon(t);
  const { app } = makeApp({ sandboxes: manager, authenticator: keyring.authenticator, audit: trail });
  const key = await keyring.make({ policy: { max_vcpus: 2 } });
  const request = async (path: string, body?: object) => {
    const response = await app.request(path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      ...(body && { body: JSON.stringify(body) }),
    });
    return (await response.json()) as { id: string; sandboxes: { id: string }[] };
  };
  const { id } = await request('/sandboxes', { timeout_s: 60 });
  t.match(trail.requests.at(-1), {
    route: 'createSandbox',
    made: [id],
    effective: { count: 1, vcpus: 1, memoryMib: 128, timeoutS: 60, profile: 'base' },
  });
  const snapshot = await request(`/sandboxes/${id}/snapshot`);
  t.match(trail.requests.at(-1), { route: 'takeSnapshot', ids: [id], made: [snapshot.id] });
  const forks = await request(`/snapshots/${snapshot.id}/fork`, { count: 2 });
  t.match(trail.requests.at(-1), { effective: { count: 2, areForks: true }, ids: [snapshot.id] });
  t.same([...(trail.requests.at(-1)?.made ?? [])].sort(), forks.sandboxes.map((fork) => fork.id).sort());
  await request('/sandboxes', { vcpus: 3 });
  t.match(trail.requests.at(-1), {
    decision: 'denied',
    effective: { vcpus: 3 },
    reason: /vcpus 3 is over max_vcpus 2/,
  });
});

t.test('no key, body, query, environment or file is ever in it', async (t) => {
  const keyring = await openKeyring(t);
  const trail = new Recorder();
  const { port, id } = await serveCat(t, { authenticator: keyring.authenticator, audit: trail });
  const key = await keyring.make();
  const SECRET = 'hunter2';
  const authorization = `Authorization: Bearer ${key}\r\n`;
  const post = (path: string, body: object) => {
    const text = JSON.stringify(body);
    return answered(
      t,
      port,
      `POST ${path} HTTP/1.1\r\nHost: x\r\n${authorization}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
  };
  await post(`/sandboxes/${id}/exec`, { cmd: ['login', SECRET], env: { PASSWORD: SECRET } });
  await post(`/sandboxes/${id}/exec`, { cmd: SECRET });
  await post('/sandboxes', { service: { cmd: ['x', SECRET], env: { PASSWORD: SECRET } }, boot_args: SECRET });
  await post('/sandboxes', { vcpus: SECRET });
  await answered(
    t,
    port,
    `GET /sandboxes/${id}/files?path=/${SECRET} HTTP/1.1\r\nHost: x\r\n${authorization}\r\n`,
  );
  await answered(t, port, `GET /${key} HTTP/1.1\r\nHost: x\r\n${authorization}\r\n`);
  await answered(t, port, `GET /sandboxes/${SECRET} HTTP/1.1\r\nHost: x\r\n${authorization}\r\n`);
  await answered(t, port, `GET /sandboxes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}x\r\n\r\n`);
  await until(() => trail.entries.length >= 9, 'all of them');
  const text = JSON.stringify(trail.entries);
  t.notMatch(text, new RegExp(SECRET));
  t.notMatch(text, new RegExp(key.slice(4)));
});

t.test('a key in the wrong place is neither in the log nor in the trail, and still answered', async (t) => {
  const keyring = await openKeyring(t);
  const { trail, lines: trailLines } = await openTrail(t);
  const { port, lines } = await serve(t, { authenticator: keyring.authenticator, audit: trail });
  const key = await keyring.make();
  const good = `Authorization: Bearer ${key}\r\n`;
  const post = (path: string, body: object): string => {
    const text = JSON.stringify(body);
    return `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n${good}\r\n${text}`;
  };
  const MISPLACED = [
    `GET /sandboxes HTTP/1.1\r\nHost: ${key}\r\n\r\n`,
    `GET http://${key}/sandboxes HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET /sandboxes HTTP/1.1\r\nHost: x\r\nOrigin: https://${key}\r\n${good}\r\n`,
    `GET /sandboxes HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${key}\r\n${good}\r\n`,
    `POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ${key}\r\n${good}\r\n`,
    post('/sandboxes', { image: { oci: `${key}/nginx` } }),
    post('/images', { ref: `${key}:${key}` }),
    `GET /images/${key} HTTP/1.1\r\nHost: x\r\n${good}\r\n`,
    `GET /sandboxes/sbk%5F${key.slice(4)} HTTP/1.1\r\nHost: x\r\n${good}\r\n`,
    `GET /sandboxes HTTP/1.1\r\nHost: x\r\nExpect: ${key}\r\n${good}\r\n`,
    `CONNECT ${key}:1 HTTP/1.1\r\nHost: x\r\n${good}\r\n`,
    `GET /sandboxes/x/exec HTTP/1.1\r\nHost: x\r\n${good}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  ];
  for (const bytes of MISPLACED) t.match(await answered(t, port, bytes), /^HTTP\/1\.1 \d{3} /);
  await until(() => trailLines().length > MISPLACED.length, 'all lines');
  const secret = new RegExp(key.slice(4), 'i');
  t.notMatch(JSON.stringify(lines), secret);
  t.notMatch(trailLines().join(), secret);
  t.ok(lines.length > MISPLACED.length / 2);
});
