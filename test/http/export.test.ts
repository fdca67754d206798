// Snapshots from one daemon to another: the real manager, registry and files over an engine in memory, through the app. Archives that
// are cut, changed or made up are refused, and nothing is left of them.
import { createHash, type Hash } from 'node:crypto';
import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { END_MARK } from '../../host-agent/src/sandboxes/saved/archive/format.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { MemoryEngine, MemoryHost } from '../support/memory-host/engine.ts';
import { oneEngine } from '../support/one-engine.ts';
import { scaled } from '../support/time-scale.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

const MIB = 2 ** 20;
t.setTimeout(scaled(120_000));

async function start(t: Test, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, options);
  const { app } = makeApp({ sandboxes: daemon.manager, logs: daemon.logs });
  const send = async (archive: Uint8Array, query = '') => {
    const response = await app.request(`/snapshots/import${query}`, {
      method: 'POST',
      body: Buffer.from(archive),
    });
    return { status: response.status, ...((await response.json()) as { id: string; error: string }) };
  };
  const left = async () => ({
    files: await readdir(join(daemon.home.dataDir, 'snapshots')).catch(() => []),
    records: daemon.store.table('snapshots').all(),
  });
  return { ...daemon, app, send, left };
}

async function exported(t: Test): Promise<Buffer> {
  const { app, manager } = await start(t);
  const { id } = await manager.create({});
  const request = { cmd: ['note', 'where', 'there'], env: {}, cwd: '', timeout_s: 0 } as never;
  await new Promise((exit) => manager.get(id).exec(request, { output: () => undefined, exit }));
  const snapshot = await manager.snapshot(manager.get(id));
  const response = await app.request(`/snapshots/${snapshot.id}/export`);
  t.equal(response.headers.get('content-type'), 'application/zstd');
  return Buffer.from(await response.arrayBuffer());
}

type Json = Record<string, never>;

/** An archive with another manifest, and digests that fit it. */
function remade(archive: Buffer, change: (manifest: Json) => unknown): Buffer {
  const { manifest, rest } = split(archive);
  return pack(Buffer.from(JSON.stringify(change(manifest) ?? manifest)), rest.subarray(0, -32));
}

function split(archive: Buffer): { manifest: Json; rest: Buffer } {
  const plain = zstdDecompressSync(archive.subarray(0, -END_MARK.length));
  const length = plain.readUInt32BE(8);
  return {
    manifest: JSON.parse(plain.subarray(12, 12 + length).toString()),
    rest: plain.subarray(12 + length),
  };
}

function pack(manifest: Buffer, parts: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(manifest.length);
  const whole = Buffer.concat([Buffer.from('SBXSNAP1'), length, manifest, parts]);
  return sealed(Buffer.concat([whole, createHash('sha256').update(whole).digest()]));
}

/** Compressed, with the mark of its end. */
function sealed(plain: Uint8Array): Buffer {
  return Buffer.concat([zstdCompressSync(plain), END_MARK]);
}

function piece(digest: Hash, offset: number, bytes: Buffer, length = bytes.length): Buffer {
  const header = Buffer.alloc(12);
  header.writeBigUInt64BE(BigInt(offset));
  header.writeUInt32BE(length, 8);
  const all = Buffer.concat([header, bytes]);
  digest.update(all);
  return all;
}

/** Of pieces for the memory, with digests that fit. */
function withMemory(archive: Buffer, ...pieces: readonly (readonly [number, Buffer])[]): Buffer {
  const { manifest } = split(archive);
  const digest = createHash('sha256');
  const parts = pieces.map(([offset, bytes]) => piece(digest, offset, bytes));
  parts.push(piece(digest, 0, Buffer.alloc(0)), digest.digest());
  return pack(Buffer.from(JSON.stringify(manifest)), Buffer.concat(parts));
}

t.test('an exported snapshot is imported by another daemon, and its fork runs', async (t) => {
  const archive = await exported(t);
  const { send, manager, host, home } = await start(t);
  const { status, id } = await send(archive);
  t.equal(status, 201);
  const dir = join(home.dataDir, 'snapshots', id);
  const disk = await stat(join(dir, 'disk'));
  t.ok(disk.blocks * 512 <= disk.size);
  const [copy] = await manager.fork(id, 1);
  t.equal(host.of(copy!.id).agent.state.notes.where, 'there');
  const again = await send(archive);
  t.not(again.id, id, 'as often as anybody likes');
});

t.test('cut anywhere, or with any bit turned, it is refused and nothing is left', async (t) => {
  const archive = await exported(t);
  const { send, left } = await start(t);
  const refused = async (bad: Uint8Array, what: string) => {
    const { status, error } = await send(bad);
    if (status !== 400 || !/^the archive is not a snapshot/.test(error))
      t.fail(`${what} of ${archive.length}: ${status} ${error}`);
  };
  const cuts = Array.from({ length: 20 }, (_, part) => Math.floor((part * archive.length) / 20));
  for (let last = 1; last <= 40; last++) cuts.push(archive.length - last);
  for (const at of cuts) await refused(archive.subarray(0, at), `cut at ${at}`);
  const mark = archive.length - END_MARK.length;
  for (const hole of [1, 8]) {
    const inside = [archive.subarray(0, mark - hole), archive.subarray(mark)];
    await refused(Buffer.concat(inside), `without the last ${hole} in front of its mark`);
  }
  const plain = zstdDecompressSync(archive.subarray(0, -END_MARK.length));
  for (let at = 0; at < plain.length; at += Math.max(1, Math.floor(plain.length / 20)))
    await refused(sealed(plain.subarray(0, at)), `cut inside at ${at}`);
  for (let turn = 0; turn < 60; turn++) {
    const changed = Buffer.from(plain);
    const at = Math.floor((turn * plain.length) / 60);
    changed[at] = (changed[at] ?? 0) ^ (1 << (turn % 8));
    const { status } = await send(sealed(changed));
    if (status !== 400 && status !== 409) t.fail(`bit at ${at}: ${status}`);
  }
  for (const more of [Buffer.from('x'), plain]) await refused(sealed(Buffer.concat([plain, more])), 'more');
  await refused(Buffer.concat([archive, archive]), 'twice');
  await refused(Buffer.concat([archive.subarray(0, mark), archive]), 'twice, with one mark');
  t.same(await left(), { files: [], records: [] });
});

t.test('made up: names, sizes, bombs, repeated pieces, long manifests', async (t) => {
  const archive = await exported(t);
  const { send, left } = await start(t);
  const part = (key: string, change: object) => (manifest: Json) => {
    const all = manifest as unknown as { parts: Record<string, object> };
    all.parts[key] = { ...all.parts[key], ...change };
  };
  const option = (change: object) => (manifest: Json) => {
    const all = manifest as unknown as { options: object };
    all.options = { ...all.options, ...change };
  };
  const bad: Record<string, Buffer> = {
    'a path': remade(archive, part('memory', { name: '../../../etc/passwd' })),
    'an absolute path': remade(archive, part('memory', { name: '/etc/passwd' })),
    'a name of ours': remade(archive, part('memory', { name: 'manifest.json' })),
    'a name twice': remade(archive, part('memory', { name: 'disk' })),
    'the root': remade(archive, part('disk', { name: 'rootfs.ext4' })),
    'a huge memory': remade(archive, part('memory', { sizeBytes: 2 ** 50 })),
    'a huge state': remade(archive, part('state', { sizeBytes: 2 ** 40, contentBytes: 2 ** 40 })),
    'more content than size': remade(archive, part('disk', { contentBytes: 2 ** 40 })),
    'no number': remade(archive, part('disk', { sizeBytes: -1 })),
    'a field more': remade(archive, part('disk', { path: '/x' })),
    'a large guest': remade(archive, option({ memoryMib: 2 ** 30 })),
    'a large disk': remade(archive, option({ diskBytes: 2 ** 52 })),
    vcpus: remade(archive, option({ vcpus: 4096 })),
    'an allowlist of rules': remade(archive, option({ network: { allowlist: ['a; flush ruleset'] } })),
    'a bare root': remade(
      archive,
      option({ rootfs: { kind: 'agent', name: 'x', digest: 'x', env: {}, workdir: '/' } }),
    ),
    'another format': remade(archive, (manifest) => ({ ...manifest, formatVersion: 2 })),
    'no manifest': pack(Buffer.from('[]'), Buffer.alloc(0)),
    'a long manifest': pack(Buffer.alloc(8 * MIB, ' '), Buffer.alloc(0)),
    'a bomb': sealed(Buffer.alloc(64 * MIB)),
    'a piece twice': withMemory(archive, [0, Buffer.from('mem')], [0, Buffer.from('ory')]),
    'a piece beyond the end': withMemory(archive, [2 ** 40, Buffer.from('x')]),
    'a piece across the end': withMemory(archive, [3, Buffer.from('memory')]),
    'a bomb of a part': withMemory(archive, [0, Buffer.alloc(MIB)]),
    nothing: Buffer.alloc(0),
    'no zstd': Buffer.from('hello'),
  };
  for (const [what, bytes] of Object.entries(bad)) {
    const { status, error } = await send(bytes);
    t.match(
      { status, error },
      { status: 400, error: /^the archive is not a snapshot that can be imported: / },
      what,
    );
  }
  t.same(await left(), { files: [], records: [] });
  t.equal((await send(archive)).status, 201, 'the good one still goes');
});

t.test('of the disk alone, it boots on another engine, and nothing of its memory is there', async (t) => {
  const archive = await exported(t);
  const other = new MemoryEngine(new MemoryHost(), { engine: 'memory 2', cpu: 'x' });
  const { send, manager, left, home } = await start(t, { engines: oneEngine(other) });
  const { status, id } = await send(archive, '?disk_only=1');
  t.equal(status, 201);
  t.same(await readdir(join(home.dataDir, 'sandboxes')), [], 'the guest that was booted is gone');
  t.notOk((await readdir(join(home.dataDir, 'snapshots', id))).includes('imported'));
  const [copy] = await manager.fork(id, 1);
  t.ok(copy);
  await manager.delete(copy!.id);
  await manager.deleteSnapshot(id);
  const { manifest, rest } = split(archive);
  const damaged = Buffer.from(rest.subarray(0, -32));
  damaged[20] = (damaged[20] ?? 0) ^ 1;
  const bad = await send(pack(Buffer.from(JSON.stringify(manifest)), damaged), '?disk_only=1');
  t.match(bad, { status: 400 }, 'its memory is checked as well');
  t.same(await left(), { files: [], records: [] });
});

t.test('elsewhere it is refused with the reason', async (t) => {
  const archive = await exported(t);
  const other = new MemoryEngine(new MemoryHost(), { engine: 'memory 2', cpu: 'x' });
  const { send, left } = await start(t, { engines: oneEngine(other) });
  const refused = await send(archive);
  t.match(refused, { status: 409, error: /engine was memory 1, is memory 2; cpu was absent, is x/ });
  const here = await start(t);
  const root = (change: object) => (manifest: Json) => {
    const all = manifest as unknown as { options: { rootfs: object } };
    all.options.rootfs = { ...all.options.rootfs, ...change };
  };
  t.match(await here.send(remade(archive, root({ digest: 'other' }))), {
    status: 409,
    error: /needs the root filesystem other of profile "base"; this host has digest-base by that name/,
  });
  t.match(await here.send(remade(archive, root({ name: 'none' }))), {
    status: 409,
    error: /which this host does not have: unknown profile none/,
  });
  t.match(await here.send(remade(archive, root({ agent: 'x.ext4' }))), { status: 409, error: /another/ });
  for (const each of [left, here.left]) t.same(await each(), { files: [], records: [] });
});

t.test('a client that leaves during the transfer, and a host without space, leave nothing', async (t) => {
  const archive = await exported(t);
  const { manager, left } = await start(t);
  let turns = 0;
  const read = async () => {
    turns += 1;
    if (turns === 1) return archive.subarray(0, archive.length - 40);
    throw new Error('the client left');
  };
  await t.rejects(manager.importSnapshot(read, { isDiskOnly: false }), { message: /the client left/ });
  const gone = new AbortController();
  gone.abort(new Error('cancelled'));
  await t.rejects(
    manager.importSnapshot(async () => archive, { isDiskOnly: false }, gone.signal),
    { message: 'cancelled' },
  );
  t.same(await left(), { files: [], records: [] });
  const full = await start(t, {
    readCapacity: async () => ({
      memoryTotalBytes: 2 ** 40,
      memoryAvailableBytes: 2 ** 40,
      diskFreeBytes: 0,
    }),
  });
  t.equal((await full.send(archive)).status, 503);
  t.same(await full.left(), { files: [], records: [] });
});

t.test('an export is damaged where its files are, and holds them no longer than it lasts', async (t) => {
  const { app, manager, home } = await start(t);
  const { id } = await manager.create({});
  const snapshot = await manager.snapshot(manager.get(id));
  const left = manager.exportSnapshot(snapshot.id);
  t.ok((await left.next())?.bytes.length);
  left.cancel();
  await truncate(join(home.dataDir, 'snapshots', snapshot.id, 'memory'), 3);
  const damaged = manager.exportSnapshot(snapshot.id);
  await t.rejects(damaged.next(), { message: /damaged/ });
  await manager.deleteSnapshot(snapshot.id);
  t.equal((await app.request(`/snapshots/${snapshot.id}/export`)).status, 404);
});

t.test('both need the operation, and keys of tenants import nothing', async (t) => {
  const keyring = await openKeyring(t);
  const daemon = await startMemoryDaemon(t);
  const { app } = makeApp({ sandboxes: daemon.manager, authenticator: keyring.authenticator });
  const ask = async (wanted: object, method: string, path: string) => {
    const headers = { authorization: `Bearer ${await keyring.make(wanted)}` };
    return (await app.request(path, { method, headers, ...(method === 'POST' && { body: 'x' }) })).status;
  };
  const reader = { policy: { operations: ['read', 'fork', 'create'] } };
  t.equal(await ask(reader, 'GET', '/snapshots/snap_0123456789abc/export'), 403);
  t.equal(await ask(reader, 'POST', '/snapshots/import'), 403);
  t.equal(await ask({ tenant: 'a' }, 'POST', '/snapshots/import'), 403);
  t.equal(await ask({}, 'POST', '/snapshots/import'), 400);
});
