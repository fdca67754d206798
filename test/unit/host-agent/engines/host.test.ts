// Facts about a host and its programs, and the mapped memory of its processes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { lastingFacts } from '../../../../host-agent/src/engines/choice-cache.ts';
import { VmmRefusal } from '../../../../host-agent/src/engines/control.ts';
import {
  findProgram,
  hostCpu,
  kvmObstacle,
  readKvmFacts,
  readProgramFacts,
} from '../../../../host-agent/src/engines/host-facts.ts';
import { ENGINE_NAMES, makeAdopters, makeEngines } from '../../../../host-agent/src/engines/index.ts';
import { kernelCommandLine } from '../../../../host-agent/src/engines/kernel-command-line.ts';
import {
  addChangedRanges,
  checkSize,
  copyOwnPages,
  mappedFile,
  PAGE_BYTES,
  privateMappings,
  readChangedRanges,
  readMapping,
  versionKey,
} from '../../../../host-agent/src/engines/mapping.ts';
import { beginMemoryCopy } from '../../../../host-agent/src/engines/qemu/save.ts';
import { limitLog } from '../../../../host-agent/src/engines/vmm.ts';
import { compileGuestProgram } from '../../../support/guest-program.ts';
import { HELPERS } from '../../../support/helper-programs.ts';
import { until } from '../../../support/until.ts';

function makeDir(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'host-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

t.test('what is known of a processor is what stays as it is', async (t) => {
  const cpu = (mhz: number) =>
    [
      ...['processor\t: 0', 'vendor_id\t: V', 'cpu family\t: 6', 'model\t\t: 143', 'model name\t: M @ 2 GHz'],
      ...[
        'stepping\t: 8',
        'microcode\t: 0x1',
        `cpu MHz\t\t: ${mhz}`,
        'flags\t\t: fpu vme',
        'vmx flags\t: vnmi',
      ],
    ].join('\n');
  t.same(lastingFacts(`${cpu(1)}\n\n${cpu(2).replaceAll('M @', 'N @')}`), [
    ...['vendor_id\t: V', 'cpu family\t: 6', 'model\t\t: 143', 'model name\t: M @ 2 GHz'],
    ...['stepping\t: 8', 'microcode\t: 0x1', 'flags\t\t: fpu vme'],
  ]);
  t.same(lastingFacts(''), []);
  t.same(lastingFacts('modelled\t: x'), []);
});

t.test('a device of hardware virtualisation is one that may be used', async (t) => {
  const dir = makeDir(t);
  t.equal(await kvmObstacle('/dev/null'), undefined);
  t.equal(await kvmObstacle(join(dir, 'kvm')), `${join(dir, 'kvm')} is not there`);
  t.equal(await kvmObstacle(dir), `${dir} is not a device`);
  const { rdev, mode } = statSync('/dev/null');
  t.equal(await readKvmFacts('/dev/null'), JSON.stringify([undefined, rdev, mode, 0, 0]));
  t.equal(await readKvmFacts('/nowhere'), '["/nowhere is not there",null,null,null,null]');
  t.equal(await kvmObstacle(), existsSync('/dev/kvm') ? undefined : '/dev/kvm is not there');
  t.equal(hostCpu(), cpus()[0]?.model.trim());
});

t.test('a program is found as a shell does it', async (t) => {
  const dir = makeDir(t);
  const [one, two] = [join(dir, 'one'), join(dir, 'two')];
  for (const path of [one, two]) mkdirSync(path);
  const path = `${dir}/missing:${one}:${two}`;
  writeFileSync(join(two, 'vmm'), '', { mode: 0o755 });
  t.equal(findProgram('vmm', path), join(two, 'vmm'));
  mkdirSync(join(one, 'vmm'));
  t.equal(findProgram('vmm', path), join(two, 'vmm'), 'a directory is none');
  rmSync(join(one, 'vmm'), { recursive: true });
  writeFileSync(join(one, 'vmm'), '', { mode: 0o644 });
  t.equal(findProgram('vmm', path), join(two, 'vmm'), 'nor is what cannot be run');
  chmodSync(join(one, 'vmm'), 0o755);
  t.equal(findProgram('vmm', path), join(one, 'vmm'), 'the first counts');
  t.equal(findProgram('other', path), 'other');
  t.equal(findProgram('./vmm', path), './vmm');
  t.equal(findProgram('sh').endsWith('/sh'), true);
  const here = process.cwd();
  t.teardown(() => process.chdir(here));
  process.chdir(two);
  t.equal(findProgram('vmm', ''), join(two, 'vmm'), 'no name of a directory is this one');
  symlinkSync(join(one, 'vmm'), join(two, 'link'));
  const facts = await readProgramFacts(join(two, 'link'));
  const { size, mtimeMs } = statSync(join(one, 'vmm'));
  t.same(facts, {
    program: join(two, 'link'),
    path: join(one, 'vmm'),
    size: String(size),
    modifiedMs: String(mtimeMs),
  });
  t.same(await readProgramFacts('/nowhere/vmm'), {
    program: '/nowhere/vmm',
    path: '/nowhere/vmm',
    size: 'undefined',
    modifiedMs: 'undefined',
  });
});

t.test('engines are made best first, each with its program', async (t) => {
  const context = {
    forkMemory: 'auto',
    claimProgram: HELPERS.claim,
    memfdProgram: HELPERS.memfd,
    kernelPath: '/k',
    initramfsPath: '/i',
    scratchDir: '/nowhere',
    log: pino({ level: 'silent' }),
  } as const;
  const programs = { qemu: '/nowhere/q', 'cloud-hypervisor': '/nowhere/c' };
  const names = (engines: ReturnType<typeof makeEngines>) =>
    engines.map(({ name, accelerator }) => `${name} ${accelerator}`);
  const all = ['cloud-hypervisor kvm', 'qemu kvm', 'qemu tcg'];
  t.same(names(makeEngines('auto', context, programs)), all);
  t.same(names(makeEngines('qemu', context, programs)), all.slice(1));
  t.same(makeEngines('other', context, programs), []);
  t.same(names(makeAdopters(context, programs)), all.slice(0, 2));
  t.same(ENGINE_NAMES, ['cloud-hypervisor', 'qemu']);
  for (const engine of makeEngines('auto', context, programs))
    t.equal((await engine.fingerprint()).program, `/nowhere/${engine.name[0]}`);
});

t.test('the kernel’s command line has the arguments of the engine, then those of the sandbox', async (t) => {
  const line = (bootArgs: string) =>
    kernelCommandLine({ bootArgs } as Parameters<typeof kernelCommandLine>[0], ['a', 'b']);
  t.match(line('mine=1'), /^console=ttyS0 quiet .* panic=-1 .* a b mine=1$/);
  t.match(line(''), / a b$/);
});

t.test('a disk is full where the VMM says it is', async (t) => {
  t.equal(new VmmRefusal('write: No space left on device').isDiskFull, true);
  t.equal(new VmmRefusal('write: Input/output error').isDiskFull, false);
});

t.test('a log is cut when it is too large, and its end kept', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const dir = makeDir(t);
  const [large, small, sparse] = ['large', 'small', 'sparse'].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  const line = `${'x'.repeat(63)}\n`;
  const mib = line.repeat(2 ** 14);
  writeFileSync(large, mib + line);
  writeFileSync(small, mib);
  writeFileSync(sparse, '');
  truncateSync(sparse, 2 ** 30);
  const limits = [sparse, small, join(dir, 'missing'), large].map(limitLog);
  mock.timers.tick(1999);
  t.equal(statSync(large).size, mib.length + 64);
  mock.timers.tick(1);
  await until(() => statSync(large).size === 0, 'a log that was cut');
  t.equal(readFileSync(`${large}.1`, 'utf8').length, 64 * 1024 - 1);
  t.equal(statSync(small).size, mib.length, 'it is not over it');
  t.equal(statSync(sparse).size, 2 ** 30, 'a hole takes nothing');
  t.notOk(existsSync(join(dir, 'missing')));
  for (const limit of limits) limit[Symbol.dispose]();
  writeFileSync(large, mib + mib);
  mock.timers.tick(10_000);
  const last = limitLog(small);
  writeFileSync(small, mib + mib);
  mock.timers.tick(2000);
  await until(() => statSync(small).size === 0, 'another');
  t.equal(statSync(large).size, 2 * mib.length, 'nobody looks at it any more');
  last[Symbol.dispose]();
});

t.test('private mappings that can be written to are those of a guest’s memory', async (t) => {
  const maps = [
    '1000-3000 rw-p 00000000 fe:00 9                          /t/memory',
    '3000-4000 rw-s 00000000 fe:00 9                          /t/shared',
    '4000-5000 r--p 00000000 fe:00 9                          /t/read only',
    '5000-6000 rwxp 00002000 fe:00 9                          /t/with spaces (deleted)',
    '6000-7000 rw-p 00000000 00:00 0 ',
    'x1000-3000 rw-p 00000000 fe:00 9                         /t/odd',
    '',
  ].join('\n');
  t.strictSame(privateMappings(maps), [
    { name: '/t/memory', startAddress: 0x1000, sizeBytes: 0x2000, fileOffset: 0 },
    { name: '/t/with spaces', startAddress: 0x5000, sizeBytes: 0x1000, fileOffset: 0x2000 },
    { name: '', startAddress: 0x6000, sizeBytes: 0x1000, fileOffset: 0 },
  ]);
  t.equal(
    mappedFile(7, { startAddress: 0xabc000, sizeBytes: 0x1000, fileOffset: 0 }),
    '/proc/7/map_files/abc000-abd000',
  );
  await t.rejects(readMapping(process.pid, '/nowhere'), {
    message: `process ${process.pid} has no mapping of /nowhere`,
  });
  t.throws(() => checkSize(2, 3), { message: "its VMM has 2 bytes as the guest's memory, which has 3" });
  checkSize(3, 3);
  // Nothing is mapped there.
  const beyond = { startAddress: 2 ** 60, sizeBytes: PAGE_BYTES, fileOffset: 0 };
  await t.rejects(readChangedRanges(process.pid, beyond), {
    message: `the page map of process ${process.pid} ends early`,
  });
});

t.test('changed pages that are near each other are one range', async (t) => {
  const ranges = (pages: number, changed: readonly number[], extraBytes = 0) => {
    const pagemap = Buffer.alloc(pages * 8 + extraBytes, 0);
    for (const page of changed) pagemap.writeUInt32LE(0x8000_0000, page * 8 + 4);
    return addChangedRanges([], pagemap).map(({ offset, length }) => [
      offset / PAGE_BYTES,
      length / PAGE_BYTES,
    ]);
  };
  t.same(ranges(20, [0, 9]), [[0, 10]], 'eight that are not lie between them');
  t.same(ranges(20, [0, 10]), [
    [0, 1],
    [10, 1],
  ]);
  t.same(ranges(3, [1, 2]), [[1, 2]]);
  t.same(ranges(0, []), []);
  t.same(ranges(1, [0], 7), [[0, 1]], 'half an entry is none');
  const swapped = Buffer.alloc(8);
  swapped.writeUInt32LE(0x4000_0000, 4);
  t.equal(addChangedRanges([], swapped).length, 1);
  swapped.writeUInt32LE(0xe000_0000, 4);
  t.equal(addChangedRanges([], swapped).length, 0, 'what is a file’s is not its own');
});

t.test('memory is copied as the file and what the process has changed', async (t) => {
  const dir = makeDir(t);
  await compileGuestProgram('mapped', dir);
  const path = '/memfd:memory';
  const pages = 400;
  const size = pages * PAGE_BYTES;
  const numbers = [size, size, 100 * PAGE_BYTES].map(String);
  const child = spawn(join(dir, 'mapped'), ['memory', ...numbers]);
  t.teardown(() => child.kill());
  await once(child.stdout, 'data');
  const pid = child.pid ?? 0;
  const mapping = await readMapping(pid, path);
  t.equal(mapping.sizeBytes, size);
  const ranges = await readChangedRanges(pid, mapping);
  t.same(ranges, [
    { offset: 0, length: PAGE_BYTES },
    { offset: 100 * PAGE_BYTES, length: 300 * PAGE_BYTES },
  ]);
  const expected = Buffer.alloc(size);
  expected.fill(1, 0, 1);
  expected.fill(1, 100 * PAGE_BYTES);
  const target = join(dir, 'copy');
  writeFileSync(target, Buffer.alloc(size));
  await copyOwnPages(pid, [mapping], target);
  t.ok(readFileSync(target).equals(expected));

  const copy = async (name: string, memory: Parameters<typeof beginMemoryCopy>[0]['memory']) => {
    const finish = await beginMemoryCopy({ pid, memory }, size, join(dir, name));
    await finish();
    return readFileSync(join(dir, name));
  };
  const empty = join(dir, 'empty');
  writeFileSync(empty, Buffer.alloc(size));
  const key = versionKey(statSync(empty));
  t.ok((await copy('one', { kind: 'copy-on-write', path })).equals(expected));
  t.ok((await copy('two', { kind: 'copy-on-write', path, origin: { path: empty, key } })).equals(expected));
  // A replaced or missing file is not used.
  const other = join(dir, 'other');
  writeFileSync(other, Buffer.alloc(size, 'o'));
  const was = versionKey(statSync(other));
  writeFileSync(other, Buffer.alloc(size + 1, 'o'));
  t.ok(
    (await copy('three', { kind: 'copy-on-write', path, origin: { path: other, key: was } })).equals(
      expected,
    ),
  );
  t.ok(
    (await copy('four', { kind: 'copy-on-write', path, origin: { path: join(dir, 'no'), key } })).equals(
      expected,
    ),
  );
  const own = versionKey(statSync(other));
  const believed = await beginMemoryCopy(
    { pid, memory: { kind: 'copy-on-write', path, origin: { path: other, key: own } } },
    size,
    join(dir, 'five'),
  );
  t.equal(readFileSync(join(dir, 'five')).at(size - 1), 'o'.charCodeAt(0), 'while it runs');
  await believed();
  t.equal(readFileSync(join(dir, 'five')).at(size - 1), 1);
  t.equal(readFileSync(join(dir, 'five')).at(2 * PAGE_BYTES), 'o'.charCodeAt(0));
  await t.rejects(beginMemoryCopy({ pid, memory: { kind: 'copy-on-write', path } }, 5, join(dir, 'six')), {
    message: /as the guest's memory, which has 5$/,
  });
  t.equal((await copy('seven', { kind: 'file', path: other })).length, size + 1);
  const finish = await beginMemoryCopy({ pid, memory: { kind: 'file', path: other } }, size, other);
  await finish();
  t.equal(statSync(other).size, size + 1, 'what is there already is not copied');
  await t.rejects(copy('eight', { kind: 'anonymous' }), {
    message: `process ${pid} has no memory descriptor`,
  });
});
