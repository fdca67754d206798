// Exported snapshots, and malformed archives of untrusted clients.
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import {
  CHUNK_BYTES,
  MAGIC,
  MAX_MANIFEST_BYTES,
} from '../../../../host-agent/src/sandboxes/saved/archive/format.ts';
import { ArchiveReader } from '../../../../host-agent/src/sandboxes/saved/archive/read-archive.ts';
import { forge, manifestOf, readAll, source, whole } from '../../../support/archives.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import type { OperatorManager } from '../../../support/memory-host/operator-manager.ts';

/** A daemon with a snapshot of a guest that has state. */
async function withSnapshot(t: Test) {
  const daemon = await startMemoryDaemon(t);
  const { id } = await daemon.manager.create({ vcpus: 2, memoryMib: 256, timeoutS: 60 });
  await execText(daemon.manager, id, ['note', 'state', 'prepared once']);
  return { ...daemon, id, snapshot: await daemon.manager.get(id).snapshot() };
}

const PLAIN = { isDiskOnly: false };
const importOf = (manager: OperatorManager, bytes: Buffer) => manager.importSnapshot(source(bytes), PLAIN);

t.test('an exported snapshot can be imported on another host, in chunks of any size', async (t) => {
  const from = await withSnapshot(t);
  const bytes = await readAll(from.manager.exportSnapshot(from.snapshot.id));
  const to = await startMemoryDaemon(t);
  for (const pieceBytes of [1000, 17, 65_536]) {
    const imported = await to.manager.importSnapshot(source(bytes, pieceBytes), PLAIN);
    t.match(imported, { sourceId: from.id, vcpus: 2, memoryMib: 256 });
    const [fork] = await to.manager.fork(imported.id, 1);
    t.equal(await execText(to.manager, fork?.id ?? '', ['recall', 'state']), 'prepared once');
    const received = to.happened.find(
      (event) => event.kind === 'snapshot-imported' && event.snapshot === imported.id,
    );
    t.match(received, { sandbox: from.id });
    await to.manager.deleteSnapshot(imported.id);
  }
  t.equal(to.manager.listSnapshots().length, 0);
  const again = await to.manager.importSnapshot(source(bytes), PLAIN);
  const second = await readAll(to.manager.exportSnapshot(again.id));
  const { takenAtMs } = manifestOf(second);
  t.same(manifestOf(second), { ...manifestOf(bytes), takenAtMs }, 'nor is anything lost on the next way');
});

t.test('a delete aborts an export in progress and leaves nothing', async (t) => {
  const { manager, id } = await withSnapshot(t);
  // More bytes than the buffers between files and client hold.
  await execText(manager, id, ['note', 'state', randomBytes(600_000).toString('base64')]);
  const snapshot = await manager.get(id).snapshot();
  const stream = manager.exportSnapshot(snapshot.id);
  await stream.next();
  await manager.deleteSnapshot(snapshot.id);
  t.equal(existsSync(snapshot.dir), false);
  await t.rejects(readAll(stream), { code: 'not_found', message: /deleted while it was read/ });
});

t.test('a truncated, changed or extended archive is refused, and nothing of it remains', async (t) => {
  const from = await withSnapshot(t);
  const bytes = await readAll(from.manager.exportSnapshot(from.snapshot.id));
  const { manager, home } = await startMemoryDaemon(t);
  const bad: [string, Buffer][] = [0, 1, 20, 100, bytes.length - 17, bytes.length - 16, bytes.length - 1].map(
    (end) => [`cut off at ${end}`, bytes.subarray(0, end)],
  );
  for (const at of [3, 40, bytes.length >> 1, bytes.length - 20, bytes.length - 3]) {
    const changed = Buffer.from(bytes);
    changed.writeUInt8((changed[at] ?? 0) ^ 0x10, at);
    bad.push([`changed at ${at}`, changed]);
  }
  bad.push(['longer', Buffer.concat([bytes, Buffer.of(0)])], ['no zstd', Buffer.alloc(5000, 7)]);
  for (const [what, archive] of bad)
    await t.rejects(
      importOf(manager, archive),
      { code: 'invalid_argument', message: /not a snapshot that can be/ },
      what,
    );
  t.same(manager.listSnapshots(), []);
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
});

t.test('fields of an untrusted archive are bounded by what a snapshot can be', async (t) => {
  const from = await withSnapshot(t);
  const good = manifestOf(await readAll(from.manager.exportSnapshot(from.snapshot.id)));
  const { manager, home } = await startMemoryDaemon(t);
  const { memory, state, disk } = good.parts;
  const room = { ...memory, sizeBytes: 4 * CHUNK_BYTES, contentBytes: 2 * CHUNK_BYTES };
  const roomy = { ...good, parts: { ...good.parts, memory: room } };
  const bytes = Buffer.alloc(10, 1);
  const parts = (changes: object) => forge({ ...good, parts: { ...good.parts, ...changes } });
  const options = (changes: object) => forge({ ...good, options: { ...good.options, ...changes } });
  const rootfs = (changes: object) => options({ rootfs: { ...good.options.rootfs, ...changes } });
  const long = Buffer.alloc(12);
  long.writeUInt32BE(MAX_MANIFEST_BYTES + 1, 8);
  MAGIC.copy(long);
  for (const [archive, code, message] of [
    [whole(Buffer.from('SBXSNAP2'), Buffer.alloc(100)), 'invalid_argument', /does not begin as one/],
    [whole(long, Buffer.alloc(MAX_MANIFEST_BYTES + 1)), 'invalid_argument', /its manifest has 1048577 bytes/],
    [forge({ ...good, formatVersion: 2 }), 'invalid_argument', /its manifest cannot be read/],
    [forge({ ...good, more: 1 }), 'invalid_argument', /its manifest cannot be read/],
    [parts({ disk: { ...disk, name: memory.name } }), 'invalid_argument', /names that they cannot have/],
    [parts({ disk: { ...disk, name: 'manifest.json' } }), 'invalid_argument', /names that they cannot have/],
    [parts({ disk: { ...disk, name: '../escape' } }), 'invalid_argument', /manifest cannot be read/],
    [parts({ memory: { ...memory, sizeBytes: 2 ** 40 } }), 'invalid_argument', /its memory has/],
    [parts({ state: { ...state, contentBytes: state.sizeBytes + 1 } }), 'invalid_argument', /its state has/],
    [parts({ disk: { ...disk, sizeBytes: good.options.diskBytes + 1 } }), 'invalid_argument', /its disk has/],
    [
      forge(roomy, { memory: [{ offset: room.sizeBytes - 5, bytes }] }),
      'invalid_argument',
      /a piece of 10 bytes/,
    ],
    [
      forge(roomy, { memory: [{ offset: 0, length: CHUNK_BYTES + 1, bytes }] }),
      'invalid_argument',
      /a piece of 1048577/,
    ],
    [
      forge(roomy, {
        memory: [
          { offset: 100, bytes },
          { offset: 109, bytes },
        ],
      }),
      'invalid_argument',
      /a piece of 10 bytes at 109 cannot be/,
    ],
    [
      forge(roomy, {
        memory: [0, 1, 2].map((at) => ({ offset: at * CHUNK_BYTES, bytes: Buffer.alloc(CHUNK_BYTES, 1) })),
      }),
      'invalid_argument',
      /a piece of 1048576 bytes at 2097152/,
    ],
    [forge(roomy, { behind: Buffer.of(1) }), 'invalid_argument', /something comes after its end/],
    [options({ vcpus: 5 }), 'invalid_argument', /vcpus is 5, and at most 4 here/],
    [options({ memoryMib: 4097 }), 'invalid_argument', /memory_mib is 4097/],
    [options({ diskBytes: 2 ** 31 }), 'invalid_argument', /disk_bytes is 2147483648/],
    [options({ timeoutS: 2 ** 32 }), 'invalid_argument', /timeout_s is/],
    [options({ idle: { timeoutS: -1, action: 'delete' } }), 'invalid_argument', /idle_timeout_s is -1/],
    [options({ network: { allowlist: ['a b'] } }), 'invalid_argument', /an entry that is not a host name/],
    [rootfs({ kind: 'agent' }), 'invalid_argument', /before it had a root filesystem/],
    [rootfs({ digest: 'other' }), 'conflict', /needs the root filesystem other .*; this host has /],
    [rootfs({ name: 'nowhere' }), 'conflict', /which this host does not have: unknown profile nowhere/],
    [rootfs({ agent: 'agent-1' }), 'conflict', /with the agent agent-1; this host has another/],
    [
      forge({ ...good, compatibility: { engine: 'x' } }),
      'conflict',
      /does not fit the engine of this host: .*disk_only/,
    ],
  ] as const)
    await t.rejects(importOf(manager, archive), { code, message }, String(message));
  t.same(manager.listSnapshots(), []);
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
  const pieces = [100, 110, room.sizeBytes - 10].map((offset) => ({ offset, bytes }));
  const fits = forge(roomy, { memory: pieces });
  t.match(await importOf(manager, fits), { vcpus: 2 }, 'what just fits is taken');
});

t.test(
  'decompression bomb: an archive may unpack to a fixed size or a multiple of the bytes received',
  async (t) => {
    const from = await withSnapshot(t);
    const good = manifestOf(await readAll(from.manager.exportSnapshot(from.snapshot.id)));
    const sizeBytes = 8 * CHUNK_BYTES;
    const room = { ...good.parts.memory, sizeBytes, contentBytes: sizeBytes };
    const roomy = { ...good, parts: { ...good.parts, memory: room } };
    const dir = t.testdir();
    const read = async (freeBytes: number | undefined, fill: (at: number) => Buffer) => {
      const memory = Array.from({ length: 8 }, (_, at) => ({ offset: at * CHUNK_BYTES, bytes: fill(at) }));
      await using reader = new ArchiveReader(source(forge(roomy, { memory })), freeBytes);
      await reader.readParts(dir, await reader.readManifest(), []);
    };
    for (const value of [0, 1])
      await t.rejects(
        read(CHUNK_BYTES, () => Buffer.alloc(CHUNK_BYTES, value)),
        { code: 'invalid_argument', message: /it unpacks to more than 400 times its \d+ bytes/ },
      );
    await read(undefined, () => Buffer.alloc(CHUNK_BYTES, 1));
    await read(CHUNK_BYTES, () => randomBytes(CHUNK_BYTES));
  },
);

t.test('a snapshot of a different engine cold-boots from its disk only', async (t) => {
  const from = await withSnapshot(t);
  const good = manifestOf(await readAll(from.manager.exportSnapshot(from.snapshot.id)));
  const { manager } = await startMemoryDaemon(t);
  const foreign = forge({ ...good, compatibility: { engine: 'x' } });
  const imported = await manager.importSnapshot(source(foreign), { isDiskOnly: true });
  t.match(imported, { sourceId: from.id, vcpus: 2, memoryMib: 256 });
  t.same(readdirSync(imported.dir).includes('imported'), false);
  const [fork] = await manager.fork(imported.id, 1);
  await execText(manager, fork?.id ?? '', ['note', 'state', 'it runs']);
  t.equal(manager.list().length, 1, 'the guest booted for it is invisible');
});

t.test('a disconnect during an upload is reported as such, not as a malformed archive', async (t) => {
  const from = await withSnapshot(t);
  const bytes = await readAll(from.manager.exportSnapshot(from.snapshot.id));
  const { manager, home } = await startMemoryDaemon(t);
  let reads = 0;
  const leaving = async () => {
    if (reads++ > 0) throw new AppError('cancelled', 'the client left within its upload');
    return bytes.subarray(0, 200);
  };
  await t.rejects(manager.importSnapshot(leaving, PLAIN), { code: 'cancelled' });
  const client = new AbortController();
  const stopping = async () => {
    client.abort(new AppError('cancelled', 'enough'));
    return source(bytes)();
  };
  await t.rejects(manager.importSnapshot(stopping, PLAIN, client.signal), { message: 'enough' });
  t.same(
    readdirSync(home.dataDir).includes('snapshots') ? readdirSync(join(home.dataDir, 'snapshots')) : [],
    [],
  );
});
