// Saving the memory of a fork that maps its source's file: a real process with such a mapping, and a fake VMM API.
import { spawn } from 'node:child_process';
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
import t from 'tap';
import { VmmApi } from '../../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import { findMemory } from '../../../../../host-agent/src/engines/cloud-hypervisor/memory-modes.ts';
import { saveVm } from '../../../../../host-agent/src/engines/cloud-hypervisor/save.ts';
import type { GuestMemory, SaveOptions, WrittenVm } from '../../../../../host-agent/src/engines/engine.ts';
import { PAGE_BYTES, versionKey } from '../../../../../host-agent/src/engines/mapping.ts';
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

/** A process with own pages in a mapping, over pages of the source. */
async function startMapped(): Promise<{ pid: number; read(): Buffer }> {
  const path = join(dir, 'memory-ranges');
  const file = openSync(path, 'w');
  ftruncateSync(file, SIZE);
  const content = Buffer.alloc(3 * PAGE_BYTES, 'of the source');
  for (const at of [20 * MIB, 33 * MIB + PAGE_BYTES]) writeSync(file, content, 0, content.length, at);
  fsyncSync(file);
  closeSync(file);
  const memory = `memory-backend-file,id=mem,size=${SIZE},mem-path=${path},share=off`;
  const machine = ['-machine', 'pc,accel=tcg,memory-backend=mem', '-m', '64', '-object', memory];
  const child = spawn('qemu-system-x86_64', ['-nodefaults', '-display', 'none', ...machine], {
    stdio: 'ignore',
  });
  t.teardown(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  const pid = child.pid!;
  const find = async () => findMemory(await readFile(`/proc/${pid}/maps`, 'utf8'), SIZE);
  while ((await find().catch(() => undefined)) === undefined)
    await new Promise((resolve) => setTimeout(resolve, 20));
  const [mapping] = (await find())!;
  const read = (): Buffer => {
    const process = openSync(`/proc/${pid}/mem`, 'r');
    const memory = Buffer.alloc(SIZE);
    for (let at = 0; at < SIZE; at += MIB) readSync(process, memory, at, MIB, mapping!.startAddress + at);
    closeSync(process);
    return memory;
  };
  await until(() =>
    read()
      .subarray(0, MIB)
      .some((byte) => byte !== 0),
  );
  return { pid, read };
}

t.test('its VMM saves all but memory, which is copied as it is at the pause', async (t) => {
  const { pid, read } = await startMapped();
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
  const whole = await save('replaced', { base: applied });
  t.equal(whole.changesPath, undefined, 'a file that it does not map is no base');
  memory = { kind: 'anonymous' };

  refusal = ['Error writing VM state snapshot', 'File exists (os error 17)'];
  await t.rejects(save('refused'), { message: /Error writing VM state snapshot/ });
  t.same(readdirSync(paths.dir), []);

  version = '54.0.0';
  const { memoryPath } = await save('unknown');
  t.equal(readFileSync(memoryPath).toString('latin1', 0, 10), 'by the VMM', 'of a version that is not known');
  t.same(lost, []);
});
