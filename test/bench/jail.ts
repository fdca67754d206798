// The cost of a VMM's jail: the VMM's program and an empty program, run with and without it, alternating.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram } from '../../host-agent/src/engines/host-facts.ts';
import { Jail, leaveJail, type View } from '../../host-agent/src/engines/jail/jail.ts';
import { QEMU_PROGRAM } from '../../host-agent/src/engines/qemu/files.ts';
import { listFirmware } from '../../host-agent/src/engines/qemu/index.ts';
import { spawnVmm } from '../../host-agent/src/engines/vmm-process.ts';
import { HELPERS } from '../support/helper-programs.ts';
import { end, TEST_CGROUPS, TEST_UIDS } from '../support/jailed.ts';
import { median, type Row, type Section, spread } from './stats.ts';

/** The kernel counts CPU time of exited processes in hundredths of a second, so several are measured together. */
const BLOCK = 10;
const TICK_MS = 10;

type Start = () => Promise<void>;

export async function benchJail(pairs: number): Promise<Section> {
  const dir = await mkdtemp(join(tmpdir(), 'bench-jail-'));
  try {
    const jail = await Jail.open({ program: HELPERS.jail, uids: TEST_UIDS, cgroups: TEST_CGROUPS });
    const qemu = findProgram(QEMU_PROGRAM);
    const programs = [
      { name: 'the VMM, which prints its version', path: qemu, args: ['--version'] },
      { name: '`true`', path: '/bin/true', args: [] },
    ];
    const view = await makeView(dir, qemu);
    const rows: Row[] = [];
    for (const { name, path, args } of programs) {
      const log = join(dir, 'log');
      const plain: Start = async () => void (await end(await spawnVmm(path, args, log)));
      const jailed: Start = () => startJailed(jail, path, args, view, log);
      rows.push([name, ...(await compare(plain, jailed, pairs))]);
    }
    return {
      title: 'The jail of a VMM',
      note: `${pairs} pairs in turn, from the lease of a user to the end of the program, with the files of a sandbox in its root directory; control groups: ${jail.missing.length === 0 ? 'version 2' : 'none on this host'}. CPU: of the daemon's part and the program's, the jail's end included. To reach: at most 15 ms more.`,
      head: ['program', 'without', 'in a jail', 'more, pair by pair: median (25–75 %)', 'CPU without · with'],
      rows,
    };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function makeView(dir: string, program: string): Promise<View> {
  const at = (name: string): string => join(dir, name);
  await mkdir(at('sockets'));
  for (const name of ['root', 'layer', 'console', 'state']) await writeFile(at(name), '');
  return {
    reads: [...(await listFirmware(program)), at('root')],
    writes: ['sockets', 'layer', 'console', 'state'].map(at),
  };
}

async function startJailed(
  jail: Jail,
  program: string,
  args: readonly string[],
  view: View,
  log: string,
): Promise<void> {
  const size = { vcpus: 1, memoryMib: 256, maxFileBytes: 2 ** 30, descriptors: 3 };
  const cell = await jail.enter({ program, argv0: program, args, view, ...size });
  const process = await spawnVmm(cell.program, cell.args, log);
  await jail.confirm(cell, process);
  const { exitCode } = await end(process);
  void leaveJail(cell);
  if (exitCode !== 0) throw new Error(`a jailed ${program} ended with ${exitCode}`);
}

async function compare(plain: Start, jailed: Start, pairs: number): Promise<Row> {
  const [without, within]: [number[], number[]] = [[], []];
  for (let pair = 0; pair <= pairs; pair++) {
    const sides = [
      { start: plain, times: without },
      { start: jailed, times: within },
    ];
    for (const { start, times } of pair % 2 === 0 ? sides : sides.toReversed()) {
      const ms = await measure(start);
      // The first run loads libraries and warms caches.
      if (pair > 0) times.push(ms);
    }
  }
  const more = within.map((ms, at) => ms - (without[at] ?? Number.NaN)).sort((a, b) => a - b);
  const quarter = (share: number) => (more[Math.floor(share * more.length)] ?? Number.NaN).toFixed(1);
  const cpu = [0, 0];
  const blocks = Math.ceil(pairs / BLOCK);
  for (let block = 0; block < blocks; block++) {
    for (const [side, start] of [plain, jailed].entries()) {
      const before = await readCpuMs();
      for (let count = 0; count < BLOCK; count++) await start();
      cpu[side]! += (await readCpuMs()) - before;
    }
  }
  return [
    spread(without, 1, 'ms'),
    spread(within, 1, 'ms'),
    `**${median(more).toFixed(1)} ms** (${quarter(0.25)}–${quarter(0.75)})`,
    `${cpu.map((ms) => (ms / blocks / BLOCK).toFixed(1)).join(' · ')} ms`,
  ];
}

async function measure(start: Start): Promise<number> {
  const startedAt = performance.now();
  await start();
  return performance.now() - startedAt;
}

/** CPU time of this process and of its exited children. */
async function readCpuMs(): Promise<number> {
  const { user, system } = process.cpuUsage();
  const [, rest = ''] = (await readFile('/proc/self/stat', 'latin1')).split(') ');
  const [userTicks = 0, systemTicks = 0] = rest.split(' ').slice(13, 15).map(Number);
  return (user + system) / 1000 + (userTicks + systemTicks) * TICK_MS;
}
