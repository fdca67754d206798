// Zeros of a VMM's memory that are known without reading it, of a process that has a file mapped as a copy has its source's memory.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import {
  gapsBetween,
  knownHoles,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/known-holes.ts';
import { PAGE_BYTES, privateMappings } from '../../../../../host-agent/src/engines/mapping.ts';

const MIB = 2 ** 20;
const SIZE = 64 * MIB;

t.test('what no range touches is a gap, in whole pages', async (t) => {
  t.same(gapsBetween([], 3 * PAGE_BYTES), [{ offset: 0, length: 3 * PAGE_BYTES }]);
  t.same(
    gapsBetween(
      [
        { offset: 5 * PAGE_BYTES, length: 1 },
        { offset: PAGE_BYTES + 1, length: PAGE_BYTES },
        { offset: PAGE_BYTES, length: 10 },
      ],
      8 * PAGE_BYTES,
    ),
    [
      { offset: 0, length: PAGE_BYTES },
      { offset: 3 * PAGE_BYTES, length: 2 * PAGE_BYTES },
      { offset: 6 * PAGE_BYTES, length: 2 * PAGE_BYTES },
    ],
  );
  t.same(gapsBetween([{ offset: 0, length: 3 * PAGE_BYTES }], 2 * PAGE_BYTES), []);
});

t.test('every known hole is zeros, whatever the source holds and the guest wrote', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'holes-'));
  const path = join(dir, 'memory-ranges');
  const file = openSync(path, 'w');
  ftruncateSync(file, SIZE);
  const content = Buffer.alloc(3 * PAGE_BYTES, 'of the source');
  for (const at of [20 * MIB, 33 * MIB + PAGE_BYTES]) writeSync(file, content, 0, content.length, at);
  fsyncSync(file);
  closeSync(file);
  // Its firmware writes to memory.
  const memory = `memory-backend-file,id=mem,size=${SIZE},mem-path=${path},share=off`;
  const child = spawn(
    'qemu-system-x86_64',
    [
      '-nodefaults',
      '-display',
      'none',
      '-machine',
      'pc,accel=tcg,memory-backend=mem',
      '-m',
      '64',
      '-object',
      memory,
    ],
    { stdio: 'ignore' },
  );
  t.teardown(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    rmSync(dir, { recursive: true });
  });
  const pid = child.pid!;
  const find = () => knownHoles(pid, 'memory-ranges', SIZE).catch(() => undefined);
  const total = (ranges: readonly { length: number }[]) =>
    ranges.reduce((sum, { length }) => sum + length, 0);
  let holes = await find();
  while (holes === undefined || total(holes) > SIZE - 2 * content.length - 16 * PAGE_BYTES) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    holes = await find();
  }
  child.kill('SIGSTOP');
  while (!/State:\tT/.test(await readFile(`/proc/${pid}/status`, 'utf8')))
    await new Promise((resolve) => setTimeout(resolve, 10));
  holes = (await find())!;
  const [mapping] = privateMappings(await readFile(`/proc/${pid}/maps`, 'utf8')).filter(
    ({ name }) => name === path,
  );
  const process = openSync(`/proc/${pid}/mem`, 'r');
  t.teardown(() => closeSync(process));
  const memoryNow = Buffer.alloc(SIZE);
  for (let at = 0; at < SIZE; at += MIB) readSync(process, memoryNow, at, MIB, mapping!.startAddress + at);
  t.ok(
    memoryNow
      .subarray(20 * MIB)
      .subarray(0, content.length)
      .equals(content),
    'it has the source’s pages',
  );
  t.notOk(memoryNow.subarray(0, MIB).equals(Buffer.alloc(MIB)), 'and its own');
  t.ok(total(holes) > SIZE / 2, `${total(holes) / MIB} MiB of holes`);
  t.same(
    holes.filter(
      ({ offset, length }) => !memoryNow.subarray(offset, offset + length).equals(Buffer.alloc(length)),
    ),
    [],
  );
  t.equal(await knownHoles(pid, 'memory-ranges', SIZE * 2), undefined, 'of another size');
  t.equal(await knownHoles(pid, 'other', SIZE), undefined, 'of another name');
});
