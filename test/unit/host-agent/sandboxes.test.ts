// Rules of sandboxes that need no guest: states, bounds, template keys, saved guests on disk, lifetimes.
import { mkdir, mkdtemp, readdir, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { checksumSparse, parseExtents } from '../../../host-agent/src/lib/extents.ts';
import { Semaphore, SerialQueue } from '../../../host-agent/src/lib/serial-queue.ts';
import { Lifetime } from '../../../host-agent/src/sandboxes/lifetime.ts';
import { resolveSandboxOptions } from '../../../host-agent/src/sandboxes/resolve-options.ts';
import { sweepSaved } from '../../../host-agent/src/sandboxes/saved/layout.ts';
import {
  describeFile,
  type SavedManifest,
  writeManifest,
} from '../../../host-agent/src/sandboxes/saved/manifest.ts';
import { SavedGuest } from '../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import { canFollow, checkTransition, type SandboxState } from '../../../host-agent/src/sandboxes/states.ts';
import { templateKey } from '../../../host-agent/src/sandboxes/template-key.ts';

const MIB = 2 ** 20;
const defaults = { profile: 'base', vcpus: 1, memoryMib: 512, diskBytes: 4096 * MIB };
const limits = { vcpus: 4, memoryMib: 2048, diskBytes: 8192 * MIB, sandboxes: 10 };

async function scratch(t: { teardown(work: () => Promise<void>): void }): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'saved-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

t.test('the table of states', async (t) => {
  const states: SandboxState[] = ['creating', 'running', 'failed', 'deleting', 'deleted'];
  const allowed = states.flatMap((from) =>
    states.filter((to) => canFollow(from, to)).map((to) => `${from}→${to}`),
  );
  t.same(allowed, [
    'creating→running',
    'creating→deleting',
    'running→failed',
    'running→deleting',
    'failed→deleting',
    'deleting→deleted',
  ]);
  t.throws(() => checkTransition('deleted', 'running'), { code: 'internal' });
});

t.test('defaults and bounds of a create', async (t) => {
  t.same(resolveSandboxOptions({}, defaults, limits), { ...defaults, timeoutS: 0, bootArgs: '' });
  t.equal(resolveSandboxOptions({ diskBytes: 64 * MIB + 1 }, defaults, limits).diskBytes, 65 * MIB);
  t.equal(
    resolveSandboxOptions({}, { ...defaults, memoryMib: 4096 }, limits).memoryMib,
    2048,
    'a default is clamped',
  );
  for (const [options, field] of [
    [{ vcpus: 5 }, 'vcpus'],
    [{ vcpus: 1.5 }, 'vcpus'],
    [{ memoryMib: 127 }, 'memory_mib'],
    [{ diskBytes: 63 * MIB }, 'disk_bytes'],
    [{ timeoutS: -1 }, 'timeout_s'],
    [{ bootArgs: 'ä' }, 'boot_args'],
    [{ bootArgs: 'x'.repeat(1025) }, 'boot_args'],
  ] as const) {
    t.throws(() => resolveSandboxOptions(options, defaults, limits), {
      code: 'invalid_argument',
      message: new RegExp(field),
    });
  }
});

t.test('a template key changes with all that a guest depends on, and with nothing else', async (t) => {
  const input = {
    compatibility: { engine: 'x', version: '1' },
    kernelDigest: 'k',
    profile: { digest: 'p' },
    options: { vcpus: 1, memoryMib: 512 },
    diskBytes: MIB,
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
    { ...input, profile: { digest: 'q' } },
    { ...input, options: { vcpus: 2, memoryMib: 512 } },
    { ...input, options: { vcpus: 1, memoryMib: 513 } },
    { ...input, diskBytes: 2 * MIB },
  ];
  t.equal(new Set([key, ...others.map(templateKey)]).size, others.length + 1);
});

async function makeSaved(dir: string): Promise<SavedGuest> {
  await mkdir(dir, { recursive: true });
  for (const name of ['memory', 'state', 'disk']) await writeFile(join(dir, name), `content of ${name}`);
  const [memory, state, disk] = await Promise.all(
    ['memory', 'state', 'disk'].map((name) => describeFile(dir, name)),
  );
  const manifest: SavedManifest = {
    formatVersion: 1,
    createdAt: new Date().toISOString(),
    compatibility: { engine: 'x', version: '1' },
    kernelDigest: 'k',
    profile: { name: 'base', digest: 'p', rootfsPath: '/p', env: {}, workdir: '/' },
    vcpus: 1,
    memoryMib: 512,
    diskBytes: MIB,
    timeoutS: 0,
    needsResync: false,
    files: { memory: memory!, state: state!, disk: disk! },
  };
  await writeManifest(dir, manifest);
  return SavedGuest.open(dir);
}

t.test('a saved guest finds damage, and is not removed under its users', async (t) => {
  const dir = join(await scratch(t), 'one');
  const saved = await makeSaved(dir);
  t.equal(await saved.use(async () => 'used'), 'used');
  t.equal(saved.incompatibility({ engine: 'x', version: '1' }), undefined);
  t.match(saved.incompatibility({ engine: 'x', version: '2' }), /version was 1, is 2/);

  await utimes(join(dir, 'memory'), new Date(0), new Date(0));
  t.equal(await saved.use(async () => 'used'), 'used', 'another time alone is no damage');
  await writeFile(join(dir, 'memory'), 'Content of memory');
  await t.rejects(
    saved.use(async () => 'used'),
    { message: /damaged.*memory has checksum/ },
  );
  await writeFile(join(dir, 'memory'), 'content of memory');
  await truncate(join(dir, 'disk'), 3);
  await t.rejects(
    saved.use(async () => 'used'),
    { message: /damaged.*disk has 3 bytes, not 15/ },
  );
  await rm(join(dir, 'disk'));
  await t.rejects(
    saved.use(async () => 'used'),
    { message: /damaged.*disk is missing/ },
  );
  await writeFile(join(dir, 'disk'), 'content of disk');

  const begun = Promise.withResolvers<void>();
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>();
  const using = saved.use(() => {
    begun.resolve();
    return finished;
  });
  await begun.promise;
  const removing = saved.remove();
  await t.rejects(
    saved.use(async () => 'late'),
    { code: 'not_found' },
  );
  t.same((await readdir(dir)).length, 4, 'still there');
  finish();
  await Promise.all([using, removing]);
  await t.rejects(readdir(dir), { code: 'ENOENT' });
});

t.test('what is unfinished or unknown is swept', async (t) => {
  const root = await scratch(t);
  for (const name of ['.half', 'known', 'stranger']) await makeSaved(join(root, name));
  t.same(await sweepSaved(root, (name) => name === 'known'), ['known']);
  t.same(await readdir(root), ['known']);
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
});

t.test('a lifetime ends when it should, and not before', async (t) => {
  const keepAlive = setTimeout(() => undefined, 10_000);
  const startedAt = Date.now();
  await new Promise<void>((resolve) => {
    new Lifetime(Date.now() + 60, resolve);
  });
  t.ok(Date.now() - startedAt >= 50);
  let isEnded = false;
  const far = new Lifetime(Date.now() + 2 ** 33, () => {
    isEnded = true;
  });
  const cancelled = new Lifetime(Date.now() + 20, () => {
    isEnded = true;
  });
  cancelled.end();
  await new Promise((resolve) => setTimeout(resolve, 60));
  t.notOk(isEnded, 'neither one beyond what a timer can hold, nor one that was ended');
  far.end();
  clearTimeout(keepAlive);
});

t.test('queues keep their order and their limit', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 12 }),
      fc.integer({ min: 1, max: 3 }),
      async (delays, limit) => {
        const done: number[] = [];
        const queue = new SerialQueue();
        const slots = new Semaphore(limit);
        let running = 0;
        let most = 0;
        await Promise.all(
          delays.flatMap((delay, index) => [
            queue.run(async () => {
              await new Promise((resolve) => setTimeout(resolve, delay));
              done.push(index);
            }),
            slots.run(async () => {
              running += 1;
              most = Math.max(most, running);
              await new Promise((resolve) => setTimeout(resolve, delay));
              running -= 1;
            }),
          ]),
        );
        return done.every((index, at) => index === at) && most <= limit;
      },
    ),
    { numRuns: 30 },
  );
});
