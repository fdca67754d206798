// Rules of sandboxes that need no guest: states, bounds, template keys, sweeps of saved guests, lifetimes.
import { readdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import type { Engine } from '../../../../host-agent/src/engines/engine.ts';
import { AppError, type ErrorCode } from '../../../../host-agent/src/lib/errors.ts';
import { checksumSparse, parseExtents, parseUniqueBytes } from '../../../../host-agent/src/lib/extents.ts';
import { NO_FAULTS } from '../../../../host-agent/src/lib/faults.ts';
import { LifecycleEvents } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import {
  checkTransition,
  type SandboxRecord,
  type SandboxState,
} from '../../../../host-agent/src/sandboxes/record.ts';
import { resolveSandboxOptions } from '../../../../host-agent/src/sandboxes/resolve-create.ts';
import { sweepSaved } from '../../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import { type SnapshotRecord, Snapshots } from '../../../../host-agent/src/sandboxes/snapshots.ts';
import { TemplateTrust, templateKey } from '../../../../host-agent/src/sandboxes/template-choice.ts';
import type { Table } from '../../../../host-agent/src/store/store.ts';
import { oneEngine } from '../../../support/one-engine.ts';
import { makeSaved, rootfs, scratch } from '../../../support/saved-guests.ts';

const MIB = 2 ** 20;
const defaults = { profile: 'base', vcpus: 1, memoryMib: 512, diskBytes: 4096 * MIB };
const limits = { vcpus: 4, memoryMib: 2048, diskBytes: 8192 * MIB, sandboxes: 10, fork: 64 };

function isAllowed(from: SandboxState, to: SandboxState): boolean {
  try {
    return checkTransition(from, to) === to;
  } catch {
    return false;
  }
}

t.test('the table of states', async (t) => {
  const states: SandboxState[] = ['running', 'failed', 'deleting', 'deleted'];
  const allowed = states.flatMap((from) =>
    states.filter((to) => isAllowed(from, to)).map((to) => `${from}→${to}`),
  );
  t.same(allowed, ['running→failed', 'running→deleting', 'failed→deleting', 'deleting→deleted']);
  t.throws(() => checkTransition('deleted', 'running'), { code: 'internal' });
});

t.test('defaults and bounds of a create', async (t) => {
  t.same(resolveSandboxOptions({}, rootfs, defaults, limits), {
    rootfs,
    vcpus: 1,
    memoryMib: 512,
    diskBytes: 4096 * MIB,
    timeoutS: 0,
    bootArgs: '',
  });
  t.equal(resolveSandboxOptions({ diskBytes: 64 * MIB + 1 }, rootfs, defaults, limits).diskBytes, 65 * MIB);
  t.equal(
    resolveSandboxOptions({}, rootfs, { ...defaults, memoryMib: 4096 }, limits).memoryMib,
    2048,
    'a default is clamped',
  );
  const least = { vcpus: 1, memoryMib: 128, diskBytes: 64 * MIB, timeoutS: 0, bootArgs: ' ~' };
  t.match(resolveSandboxOptions(least, rootfs, defaults, limits), least);
  const most = { vcpus: 4, memoryMib: 2048, diskBytes: limits.diskBytes, bootArgs: 'x'.repeat(1024) };
  t.match(resolveSandboxOptions(most, rootfs, defaults, limits), most);
  t.throws(() => resolveSandboxOptions({ bootArgs: 'x'.repeat(1025) }, rootfs, defaults, limits), {
    message: `boot_args must be at most 1024 printable ascii characters, not 1025: "${'x'.repeat(80)}"`,
  });
  for (const [options, field] of [
    [{ vcpus: 0 }, 'vcpus'],
    [{ vcpus: 5 }, 'vcpus'],
    [{ vcpus: 1.5 }, 'vcpus'],
    [{ memoryMib: 127 }, 'memory_mib'],
    [{ diskBytes: 63 * MIB }, 'disk_bytes'],
    [{ timeoutS: -1 }, 'timeout_s'],
    [{ bootArgs: 'ä' }, 'boot_args'],
    [{ bootArgs: 'x'.repeat(1025) }, 'boot_args'],
  ] as const) {
    t.throws(() => resolveSandboxOptions(options, rootfs, defaults, limits), {
      code: 'invalid_argument',
      message: new RegExp(field),
    });
  }
});

t.test('a template key changes with all that a guest depends on, and with nothing else', async (t) => {
  const input = {
    compatibility: { engine: 'x', version: '1' },
    kernelDigest: 'k',
    options: { rootfs: { digest: 'p' }, vcpus: 1, memoryMib: 512, diskBytes: MIB },
  };
  const key = templateKey(input);
  t.match(key, /^[0-9a-f]{16}$/);
  t.equal(
    templateKey({ ...input, compatibility: { version: '1', engine: 'x' } }),
    key,
    'not with the order of facts',
  );
  const others = [
    { ...input, compatibility: { engine: 'x', version: '2' } },
    { ...input, kernelDigest: 'l' },
    { ...input, options: { ...input.options, rootfs: { digest: 'q' } } },
    { ...input, options: { ...input.options, vcpus: 2 } },
    { ...input, options: { ...input.options, memoryMib: 513 } },
    { ...input, options: { ...input.options, diskBytes: 2 * MIB } },
    { ...input, options: { ...input.options, rootfs: { digest: 'p', agentPath: '/agents/a.ext4' } } },
    { ...input, options: { ...input.options, network: { allowlist: [] } } },
  ];
  t.equal(new Set([key, ...others.map(templateKey)]).size, others.length + 1);
});

t.test('a snapshot is deleted on a full disk, and can be deleted again if its record stayed', async (t) => {
  const dataDir = await scratch(t);
  const id = 'snap_0123456789abc';
  await makeSaved(join(dataDir, 'snapshots', id));
  const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  const retained = new Map([[id, { createdAtMs: 0, sourceId: 'sbx_0123456789abc', isComplete: true }]]);
  let isForgetful = false;
  const records = {
    all: () => [...retained].map(([id, record]) => ({ id, record })),
    get: (id: string) => retained.get(id),
    put: () => Promise.reject(full),
    remove: async (id: string) => {
      if (!isForgetful) throw full;
      retained.delete(id);
    },
  } as unknown as Table<SnapshotRecord>;
  const engines = oneEngine({} as Engine);
  const events = new LifecycleEvents();
  const log = pino({ level: 'silent' });
  const sandboxRecords = { all: () => [], get: () => undefined } as unknown as Table<SandboxRecord>;
  const authorities = { collect: async () => undefined };
  const snapshots = new Snapshots({
    ...{ dataDir, engines, records, sandboxRecords, faults: NO_FAULTS, authorities, events, log },
    shared: undefined,
  });
  await snapshots.start();
  t.equal(snapshots.list(() => true).length, 1);
  await t.rejects(snapshots.delete(id), { code: 'ENOSPC' });
  t.same(await readdir(join(dataDir, 'snapshots')), [], 'its files are removed');
  isForgetful = true;
  await snapshots.delete(id);
  t.same([snapshots.list(() => true).length, retained.size], [0, 0]);
});

t.test('only failures that concern the template count against it', async (t) => {
  const root = await scratch(t);
  const [fresh, used] = [await makeSaved(join(root, 'fresh')), await makeSaved(join(root, 'used'))];
  const failure = (stage: string, details = {}, code: ErrorCode = 'internal') =>
    new AppError(code, 'it failed', { stage, ...details });
  const late = () => failure('agent', { cause: new AppError('internal', 'late', { isTimeout: true }) });
  const bad = { isBad: true, isWorthBooting: true };
  const innocent = { isBad: false, isWorthBooting: false };
  const trust = new TemplateTrust();
  trust.copySucceeded(used);
  for (const error of [
    new Error('anything'),
    failure('disk'),
    failure('service'),
    failure('restore', {}, 'exhausted'),
    failure('agent', {}, 'cancelled'),
  ]) {
    t.same([trust.copyFailed(fresh, error), trust.copyFailed(used, error)], [innocent, innocent]);
  }
  t.same(trust.copyFailed(fresh, failure('restore')), bad, 'a VMM that refuses an unproven template');
  t.same(trust.copyFailed(used, failure('restore')), innocent, 'but not one that gave copies before');
  t.same(trust.copyFailed(used, failure('verify')), bad, 'unless its files changed');
  t.same(
    [trust.copyFailed(fresh, late()), trust.copyFailed(fresh, late())],
    [innocent, innocent],
    'a slow host',
  );
  t.same(trust.copyFailed(fresh, late()), { isBad: true, isWorthBooting: false }, 'or a template that hangs');
  for (let n = 0; n < 5; n++) t.same(trust.copyFailed(used, late()), innocent);
  await used.remove();
  const gone = await used.use(async () => undefined).catch((error: unknown) => error);
  const isBooted = { isBad: false, isWorthBooting: true };
  t.same(trust.copyFailed(used, gone), isBooted, 'one that was removed after it was chosen');
});

t.test('unfinished and unknown directories are swept', async (t) => {
  const root = await scratch(t);
  for (const name of ['.half', 'known', 'stranger']) await makeSaved(join(root, name));
  t.same(await sweepSaved(root, (name) => name === 'known'), ['known']);
  t.same(await readdir(root), ['known']);
  const whole = await readdir(join(root, 'known'));
  await writeFile(join(root, 'known', 'manifest.json.new'), '{"half');
  t.same(await sweepSaved(root, () => true), ['known']);
  t.same(await readdir(join(root, 'known')), whole, 'a power cut while checksums were added');
  t.same(await sweepSaved(join(root, 'nowhere'), () => true), []);
});

t.test('checksums do not depend on how a file is allocated', async (t) => {
  const dir = await scratch(t);
  const content = Buffer.alloc(3 * MIB + 17);
  content.write('at the start');
  content.write('in the last chunk', 3 * MIB);
  await writeFile(join(dir, 'dense'), content);
  await writeFile(join(dir, 'sparse'), '');
  await truncate(join(dir, 'sparse'), content.length);
  const { open } = await import('node:fs/promises');
  {
    await using file = await open(join(dir, 'sparse'), 'r+');
    await file.write('at the start', 0);
    await file.write('in the last chunk', 3 * MIB);
    await file.sync();
  }
  t.equal(await checksumSparse(join(dir, 'sparse')), await checksumSparse(join(dir, 'dense')));
  await truncate(join(dir, 'sparse'), content.length + 1);
  t.not(
    await checksumSparse(join(dir, 'sparse')),
    await checksumSparse(join(dir, 'dense')),
    'the size counts',
  );
  const table = [
    'Filesystem type is: ef53',
    ' ext:     logical_offset:        physical_offset: length:   expected: flags:',
    '   0:        0..    4095:    1000..      5095:   4096:',
    '   1:     4096..    8191:    9000..     13095:   4096:       5096:',
    '   2:  1048576.. 1052671:   20000..     24095:   4096:       6000: last,eof',
  ].join('\n');
  t.same(parseExtents(table, 1_050_000), [
    { offset: 0, length: 8192 },
    { offset: 1_048_576, length: 1424 },
  ]);
  t.equal(parseUniqueBytes(table), 12_288);
  const shared = table.replace('5096:', '5096: shared').replace('last,eof', 'last,shared,eof');
  t.equal(parseUniqueBytes(shared), 4096, 'shared ranges are not its own');
  t.equal(parseUniqueBytes(''), 0);
});
