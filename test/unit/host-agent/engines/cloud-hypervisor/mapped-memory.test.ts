// Saving the memory of a fork that maps its source's file, and of a booted guest: a real process with such a mapping, and
// a fake VMM API.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { VmmApi } from '../../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import {
  beginBootedGuest,
  findMemory,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/mapped-memory.ts';
import { saveVm } from '../../../../../host-agent/src/engines/cloud-hypervisor/save.ts';
import type { GuestMemory, SaveOptions, WrittenVm } from '../../../../../host-agent/src/engines/engine.ts';
import {
  findAnonymous,
  type Mapping,
  nonZeroRanges,
  PAGE_BYTES,
  versionKey,
} from '../../../../../host-agent/src/engines/mapping.ts';
import { applyPageLog } from '../../../../../host-agent/src/engines/page-log.ts';
import { HELPERS } from '../../../../support/helper-programs.ts';
import { serveVmm } from '../../../../support/made-vmm-api.ts';
import { until } from '../../../../support/until.ts';

const MIB = 2 ** 20;
const SIZE = 64 * MIB;
const dir = mkdtempSync(join(tmpdir(), 'mapped-'));
t.teardown(() => rmSync(dir, { recursive: true }));

t.test('memory is what mappings of the file make up, one behind the other', async (t) => {
  const line = (start: number, bytes: number, offset: number, rest: string) =>
    `${start.toString(16)}-${(start + bytes).toString(16)} ${rest.replace('@', offset.toString(16).padStart(8, '0'))}`;
  const own = 'rw-p @ fe:00 9   /s/start/memory-ranges (deleted)';
  const first = line(0x7f2000000000, 3 * MIB, 0, own);
  const last = line(0x7f1000000000, MIB, 3 * MIB, own);
  const others = [
    line(0x7f3000000000, MIB, 0, 'rw-s @ fe:00 9   /s/start/memory-ranges'),
    line(0x7f4000000000, MIB, 0, 'rw-p @ fe:00 9   /s/start/other'),
  ];
  const found = findMemory([...others, last, first].join('\n'), 4 * MIB);
  t.match(found, [
    { startAddress: 0x7f2000000000, sizeBytes: 3 * MIB, fileOffset: 0 },
    { startAddress: 0x7f1000000000, sizeBytes: MIB, fileOffset: 3 * MIB },
  ]);
  for (const [maps, bytes] of [
    [[first, last], 3 * MIB],
    [[first, last], 5 * MIB],
    [[last], MIB],
    [[first, line(0x7f1000000000, MIB, 2 * MIB, own)], 4 * MIB],
    [others, MIB],
  ] as const)
    t.equal(findMemory(maps.join('\n'), bytes), undefined);
});

type Memory = { readonly pid: number; readonly mapping: Mapping; read(): Buffer };

/** A process with own pages in a mapping, over pages of the source. */
async function startMapped(t: Test): Promise<Memory> {
  const path = join(dir, 'memory-ranges');
  const file = openSync(path, 'w');
  ftruncateSync(file, SIZE);
  const content = Buffer.alloc(3 * PAGE_BYTES, 'of the source');
  for (const at of [20 * MIB, 33 * MIB + PAGE_BYTES]) writeSync(file, content, 0, content.length, at);
  fsyncSync(file);
  closeSync(file);
  const backend = `memory-backend-file,id=mem,size=${SIZE},mem-path=${path},share=off`;
  return startMachine(t, backend, (maps) => findMemory(maps, SIZE)?.[0]);
}

async function startMachine(
  t: Test,
  backend: string,
  find: (maps: string) => Mapping | undefined,
): Promise<Memory> {
  const machine = ['-machine', 'pc,accel=tcg,memory-backend=mem', '-m', '64', '-object', backend];
  const child = spawn('qemu-system-x86_64', ['-nodefaults', '-display', 'none', ...machine], {
    stdio: 'ignore',
  });
  t.teardown(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  const pid = child.pid!;
  const look = async () => find(await readFile(`/proc/${pid}/maps`, 'utf8').catch(() => ''));
  let mapping = await look();
  for (; mapping === undefined; mapping = await look()) await new Promise((done) => setTimeout(done, 20));
  const { startAddress } = mapping;
  const read = (): Buffer => {
    const process = openSync(`/proc/${pid}/mem`, 'r');
    const memory = Buffer.alloc(SIZE);
    for (let at = 0; at < SIZE; at += MIB) readSync(process, memory, at, MIB, startAddress + at);
    closeSync(process);
    return memory;
  };
  await until(() =>
    read()
      .subarray(0, MIB)
      .some((byte) => byte !== 0),
  );
  return { pid, mapping, read };
}

async function hidePagemap(pid: number, work: () => Promise<void>): Promise<void> {
  const path = `/proc/${pid}/pagemap`;
  execFileSync('mount', ['--bind', '/dev/null', path]);
  await work().finally(() => execFileSync('umount', [path]));
}

t.test('its VMM saves all but memory, which is copied as it is at the pause', async (t) => {
  const { pid, read } = await startMapped(t);
  const paths = { dir: join(dir, 'own'), socketDir: join(dir, 'sockets') };
  for (const path of Object.values(paths)) mkdirSync(path);
  const socket = join(paths.socketDir, 'api.sock');
  let version = '53.0.0';
  let refusal = ['Error creating memory snapshot file "…"', 'File exists (os error 17)'];
  const vmm = await serveVmm(t, socket, pid);
  Object.assign(vmm.answers, {
    'vmm.ping': () => ({ version, pid }),
    'vm.pause': () => void process.kill(pid, 'SIGSTOP'),
    'vm.resume': () => void process.kill(pid, 'SIGCONT'),
    'vm.snapshot': ({ destination_url }: { destination_url: string }) => {
      const to = new URL(destination_url).pathname;
      for (const name of ['config.json', 'state.json']) writeFileSync(join(to, name), '{}', { flag: 'wx' });
      const memory = join(to, 'memory-ranges');
      if (existsSync(memory)) return { reasons: ['Error from API', ...refusal] };
      writeFileSync(memory, Buffer.alloc(SIZE, 'by the VMM'), { flag: 'wx' });
      return undefined;
    },
  });

  const lost: string[] = [];
  let memory: GuestMemory = { kind: 'anonymous' };
  const save = async (name: string, options: Partial<SaveOptions> = {}) => {
    const to = join(dir, name);
    mkdirSync(to);
    let atPause: Buffer | undefined;
    const saved = await saveVm(
      {
        api: new VmmApi(socket),
        identity: { pid, startTicks: 0, paths, memory } as never,
        log: pino({ level: 'silent' }),
        claimProgram: HELPERS.claim,
        terminate: async (reason) => void lost.push(reason),
      },
      {
        dir: to,
        memoryBytes: SIZE,
        whilePaused: async () => {
          await until(() => /State:\tT/.test(readFileSync(`/proc/${pid}/status`, 'utf8')));
          atPause = read();
        },
        ...options,
      },
    );
    return { ...saved, atPause: atPause! };
  };

  const saved = await save('saved');
  const copy = readFileSync(saved.memoryPath);
  t.ok(copy.equals(saved.atPause));
  t.ok(copy.subarray(20 * MIB).toString('latin1', 0, 13) === 'of the source' && copy[0] !== undefined);
  t.notOk(copy.subarray(0, MIB).equals(Buffer.alloc(MIB)), 'with pages of its own');
  t.ok(statSync(saved.memoryPath).blocks * 512 < SIZE / 2, 'zeros are holes');
  t.equal(statSync(saved.memoryPath).mode & 0o777, 0o644);
  t.same(readdirSync(paths.dir), [], 'nothing is left beside');

  // A guest whose memory file is its own: only what differs from it is written, and the file is left as it is.
  const base = join(dir, 'memory-ranges');
  const before = readFileSync(base);
  memory = { kind: 'copy-on-write', path: base, origin: { path: base, key: versionKey(statSync(base)) } };
  const state = () => /State:\t(.)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  const commit = async (): Promise<void> => {
    throw new Error('the disk is full');
  };
  await t.rejects(save('failed', { base, staysPaused: true, commit }), { message: 'the disk is full' });
  await until(() => state() !== 'T');
  // A VMM that is killed for its memory loses pages before it ends.
  const whilePaused = async (): Promise<void> => {
    vmm.answers['vmm.ping'] = () => ({ reasons: ['it was killed'] });
  };
  const keepNone = async (): Promise<void> => void t.fail('half of a memory is none');
  const killed = save('killed', { base, staysPaused: true, whilePaused, commit: keepNone });
  await t.rejects(killed, { message: /it was killed/ });
  vmm.answers['vmm.ping'] = () => ({ version, pid });
  const written: WrittenVm[] = [];
  const keep = { base, staysPaused: true, commit: async (vm: WrittenVm) => void written.push(vm) };
  const { atPause, ...changed } = await save('changed', keep);
  t.equal(state(), 'T', 'it stays paused');
  process.kill(pid, 'SIGCONT');
  t.same(written, [changed]);
  t.match(changed, { memoryPath: base, changesPath: join(dir, 'changed/changes') });
  t.same(readdirSync(join(dir, 'changed')).sort(), ['changes', 'state']);
  t.ok(statSync(changed.changesPath ?? '').size < SIZE / 2);
  t.ok(readFileSync(base).equals(before));
  const applied = join(dir, 'applied');
  writeFileSync(applied, before);
  await applyPageLog(changed.changesPath ?? '', applied);
  t.ok(readFileSync(applied).equals(atPause));
  // What it had then is an earlier copy by now, whatever file it maps.
  const { atPause: later, ...since } = await save('since', { ...keep, since: applied });
  process.kill(pid, 'SIGCONT');
  t.match(since, { memoryPath: applied, changesPath: join(dir, 'since/changes') });
  t.ok(statSync(since.changesPath ?? '').size < statSync(changed.changesPath ?? '').size);
  await applyPageLog(since.changesPath ?? '', applied);
  t.ok(readFileSync(applied).equals(later));
  const whole = await save('replaced', { base: applied });
  t.equal(whole.changesPath, undefined, 'a file that it does not map is no base');
  memory = { kind: 'anonymous' };

  await hidePagemap(pid, async () => {
    const { memoryPath } = await save('without a page map of it');
    t.equal(readFileSync(memoryPath).toString('latin1', 0, 10), 'by the VMM');
  });

  refusal = ['Error writing VM state snapshot', 'File exists (os error 17)'];
  await t.rejects(save('refused'), { message: /Error writing VM state snapshot/ });
  t.same(readdirSync(paths.dir), []);

  version = '54.0.0';
  const { memoryPath } = await save('unknown');
  t.equal(readFileSync(memoryPath).toString('latin1', 0, 10), 'by the VMM', 'of a version that is not known');
  t.same(lost, []);
});

t.test('of a booted guest what it has used is copied, without its VMM', async (t) => {
  const backend = `memory-backend-ram,id=mem,size=${SIZE},share=off`;
  const { pid, read } = await startMachine(t, backend, (maps) => findAnonymous(maps, SIZE));
  // The process has no mapping of such a size.
  const other = 13 * MIB + 3 * PAGE_BYTES;
  let writtenBytes = other;
  const paths = { dir: join(dir, 'own-booted'), socketDir: join(dir, 'sockets-booted') };
  for (const path of Object.values(paths)) mkdirSync(path);
  const socket = join(paths.socketDir, 'api.sock');
  const vmm = await serveVmm(t, socket, pid);
  Object.assign(vmm.answers, {
    'vmm.ping': () => ({ version: '53.0.0', pid }),
    'vm.pause': () => void process.kill(pid, 'SIGSTOP'),
    'vm.resume': () => void process.kill(pid, 'SIGCONT'),
    'vm.snapshot': ({ destination_url }: { destination_url: string }) => {
      const to = new URL(destination_url).pathname;
      for (const name of ['config.json', 'state.json']) writeFileSync(join(to, name), '{}', { flag: 'wx' });
      const path = join(to, 'memory-ranges');
      if (existsSync(path)) return { reasons: ['memory snapshot file', 'File exists (os error 17)'] };
      writeFileSync(path, Buffer.alloc(writtenBytes, 'by the VMM'), { flag: 'wx' });
      return undefined;
    },
  });
  const save = async (name: string, memory: GuestMemory, memoryBytes: number, since?: string) => {
    mkdirSync(join(dir, name));
    let atPause: Buffer | undefined;
    const context = {
      api: new VmmApi(socket),
      identity: { pid, startTicks: 0, paths, memory } as never,
      log: pino({ level: 'silent' }),
      claimProgram: HELPERS.claim,
      terminate: async (reason: string) => void t.fail(reason),
    };
    const whilePaused = async (): Promise<void> => {
      await until(() => /State:\tT/.test(readFileSync(`/proc/${pid}/status`, 'utf8')));
      atPause = read();
    };
    const options = { dir: join(dir, name), memoryBytes, whilePaused, ...(since && { since }) };
    const { memoryPath, changesPath } = await saveVm(context, options);
    if (changesPath !== undefined) await applyPageLog(changesPath, memoryPath);
    return { memoryPath, changesPath, isExact: readFileSync(memoryPath).equals(atPause ?? Buffer.alloc(0)) };
  };
  const booted = { kind: 'anonymous', isBooted: true } as const;
  const { memoryPath, isExact } = await save('booted', booted, SIZE);
  t.ok(isExact);
  t.ok(statSync(memoryPath).blocks * 512 < SIZE / 2, 'zeros are holes');
  t.equal(statSync(memoryPath).mode & 0o777, 0o644);
  const since = await save('booted since', booted, SIZE, memoryPath);
  t.match(since, { memoryPath, changesPath: join(dir, 'booted since/changes'), isExact: true });
  for (const [name, memory] of [
    ['restored', { kind: 'anonymous' }],
    ['of another size', booted],
  ] as const) {
    const saved = await save(name, memory, other);
    t.equal(readFileSync(saved.memoryPath).toString('latin1', 0, 10), 'by the VMM', name);
  }
  // A kernel without the map of pages is noticed while the guest runs.
  writtenBytes = SIZE;
  await hidePagemap(pid, async () => {
    const saved = await save('without a page map', booted, SIZE);
    t.equal(readFileSync(saved.memoryPath).toString('latin1', 0, 10), 'by the VMM');
  });
  t.same(readdirSync(paths.dir), []);
});

t.test('a booted guest may have two ranges of memory from 3008 MiB on', async (t) => {
  // Those of arm64 end 64 MiB before those of x86; the process is not even looked at.
  t.equal(await beginBootedGuest(0, 3009 * MIB, join(dir, 'two-ranges')), undefined);
  await t.rejects(beginBootedGuest(0, 3008 * MIB, join(dir, 'one-range')), { code: 'ENOENT' });
});

t.test('anonymous memory is the only mapping of exactly its size', async (t) => {
  const line = (start: number, bytes: number, rest = 'rw-p 00000000 00:00 0 ') =>
    `${start.toString(16)}-${(start + bytes).toString(16)} ${rest}`;
  const memory = line(0x7f2000000000, 3 * MIB);
  const others = [
    line(0x7f1000000000, 2 * MIB),
    line(0x7f3000000000, 3 * MIB, '---p 00000000 00:00 0 '),
    line(0x7f4000000000, 3 * MIB, 'rw-p 00000000 fe:00 9   /file'),
    line(0x7f5000000000, 3 * MIB, 'rw-p 00000000 00:00 0    [heap]'),
    line(0x7f6000000000, 3 * MIB, 'rw-s 00000000 00:01 7   /memfd:other (deleted)'),
  ];
  t.match(findAnonymous([...others, memory].join('\n'), 3 * MIB), { startAddress: 0x7f2000000000 });
  t.equal(findAnonymous(others.join('\n'), 3 * MIB), undefined);
  t.equal(findAnonymous([memory, line(0x7f7000000000, 3 * MIB)].join('\n'), 3 * MIB), undefined);
});

t.test('blocks of zeros are left out, also a part of one at the end', async (t) => {
  const block = 16 * PAGE_BYTES;
  const pages = Buffer.alloc(5 * block + 100);
  t.same(nonZeroRanges(pages), []);
  for (const at of [0, 2 * block - 1, 3 * block, 5 * block + 99]) pages[at] = 1;
  t.same(nonZeroRanges(pages), [
    { offset: 0, length: 2 * block },
    { offset: 3 * block, length: block },
    { offset: 5 * block, length: 100 },
  ]);
});
