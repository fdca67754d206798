// One cgroup for each command, so that all processes of a command are counted and killed together.
import { readdirSync } from 'node:fs';
import type { ResourceUsage } from '@sandboxd/proto';
import { ignoreExisting } from '../lib/existing.ts';
import { logError } from '../lib/log.ts';
import { kibibyteField } from '../machine/stats.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import type { ProcessUsage } from '../reap/reaper.ts';
import { type GuestSize, type Share, toLimits } from './limits.ts';

const PARENT = 'exec';
/** The cpu controller keeps the agent and each command responsive under the load of other commands. */
const CONTROLLERS = ['cpu', 'memory', 'io', 'pids'];

export type CgroupUsage = {
  cpuStat: string;
  memoryPeak: string;
  memoryStat: string;
  memoryEvents: string;
  ioStat: string;
  /** Sum over all reaped processes of this cgroup. */
  processes: ProcessUsage;
};

export type Cgroup = {
  readonly name: string;
  /** Descriptor of the cgroup's directory, or -1 when the kernel has no cgroup v2. */
  readonly fd: number;
  processes: ProcessUsage;
};

const NOTHING: ProcessUsage = {
  cpuUserUs: 0,
  cpuSystemUs: 0,
  majorFaults: 0,
  involuntarySwitches: 0,
  readBytes: 0,
  writtenBytes: 0,
};

export class ExecCgroups {
  /** Cgroups of running commands, and cgroups that background processes keep alive. */
  readonly #cgroups = new Map<string, Cgroup>();
  /** Cgroups whose command has ended. */
  readonly #released = new Set<string>();
  readonly #root: string;
  #parentFd = -1;
  #share: Share | undefined;
  #lastNumber = 0;
  #spare: Cgroup | undefined;
  #isRestocking = false;

  /** `root`: the cgroup v2 mount point. */
  constructor(root = '/sys/fs/cgroup') {
    this.#root = root;
  }

  /** Prepares the hierarchy. Without cgroup v2, commands are managed by process group. */
  start(): void {
    try {
      for (const controller of CONTROLLERS) enable(this.#root, controller);
      const rootFd = addon.openDirectory(NO_DIRECTORY, this.#root);
      ignoreExisting(() => addon.makeDirectory(rootFd, PARENT, 0o755));
      this.#parentFd = addon.openDirectory(rootFd, PARENT);
      addon.close(rootFd);
      for (const controller of CONTROLLERS) enable(`${this.#root}/${PARENT}`, controller);
      this.limitPids(0);
    } catch (error) {
      logError('cgroup', error);
    }
  }

  /** Maximum processes and threads of one command, running commands included; 0: by the guest's size. */
  limitPids(pids: number): void {
    if (this.#parentFd < 0) return;
    const { together, command } = toLimits(readGuestSize(), pids);
    this.#share = command;
    limit(this.#parentFd, '', together);
    for (const name of this.#cgroups.keys()) limit(this.#parentFd, `${name}/`, command);
    if (this.#spare !== undefined && this.#spare.fd >= 0) limit(this.#spare.fd, '', command);
  }

  get count(): number {
    return this.#cgroups.size;
  }

  /** Whether this kernel can freeze commands. */
  get canFreeze(): boolean {
    return this.#parentFd >= 0 && addon.readText(this.#parentFd, 'cgroup.freeze') !== '';
  }

  /**
   * Freezes or thaws the processes of all cgroups, current and future ones. A process must not be started while
   * frozen: it would wait for the thaw, and the agent with it. Fatal signals still work.
   */
  setFrozen(isFrozen: boolean): void {
    const result = addon.writeText(this.#parentFd, 'cgroup.freeze', isFrozen ? '1' : '0');
    if (result < 0) throw new Error(`cannot write cgroup.freeze: error ${-result}`);
  }

  /** Whether every frozen process has stopped. */
  get hasStopped(): boolean {
    return addon.readText(this.#parentFd, 'cgroup.events').includes('frozen 1');
  }

  /** Returns an empty cgroup. One is always prepared, because creating it is a large part of starting a command. */
  acquire(): Cgroup {
    const cgroup = this.#spare ?? this.#make();
    this.#spare = undefined;
    if (cgroup.fd >= 0) this.#cgroups.set(cgroup.name, cgroup);
    return cgroup;
  }

  /** Prepares the next cgroup when the agent is idle. */
  restock(): void {
    if (this.#isRestocking || this.#spare !== undefined) return;
    this.#isRestocking = true;
    setImmediate(() => {
      this.#isRestocking = false;
      this.#spare ??= this.#make();
    });
  }

  readUsage({ fd, processes }: Cgroup): CgroupUsage {
    const read = (name: string): string => (fd < 0 ? '' : addon.readText(fd, name));
    return {
      cpuStat: read('cpu.stat'),
      memoryPeak: read('memory.peak'),
      memoryStat: processes.majorFaults > 0 || isPopulated(fd) ? read('memory.stat') : '',
      memoryEvents: read('memory.events'),
      ioStat: read('io.stat'),
      processes,
    };
  }

  /**
   * Sends SIGKILL to every process in the cgroup, including processes being forked. False when the kernel cannot do
   * it.
   */
  kill({ fd }: Cgroup): boolean {
    return fd >= 0 && addon.writeText(fd, 'cgroup.kill', '1') === 0;
  }

  /** Whether the cgroup or a descendant has a process. */
  isPopulated({ fd }: Cgroup): boolean {
    return isPopulated(fd);
  }

  /** Processes directly in this cgroup. */
  pids({ fd }: Cgroup): number[] {
    const text = fd < 0 ? '' : addon.readText(fd, 'cgroup.procs');
    return text.split('\n').flatMap((line) => (line === '' ? [] : [Number(line)]));
  }

  /** Called when the command has ended. The cgroup is removed now, or after its last background process. */
  release(cgroup: Cgroup): void {
    if (cgroup.fd < 0) return;
    addon.close(cgroup.fd);
    this.#remove(cgroup.name);
  }

  /** Adds the usage of a reaped orphan of `path` (below the root). */
  credit(path: string, usage: ProcessUsage): void {
    const [parent, name = ''] = path.split('/');
    const cgroup = parent === PARENT ? this.#cgroups.get(name) : undefined;
    if (cgroup === undefined) return;
    cgroup.processes = addUsage(cgroup.processes, usage);
    if (this.#released.has(name)) this.#remove(name);
  }

  #make(): Cgroup {
    if (this.#parentFd < 0) return { name: '', fd: -1, processes: NOTHING };
    this.#lastNumber += 1;
    const name = String(this.#lastNumber);
    try {
      addon.makeDirectory(this.#parentFd, name, 0o755);
      const fd = addon.openDirectory(this.#parentFd, name);
      if (this.#share !== undefined) limit(fd, '', this.#share);
      return { name, fd, processes: NOTHING };
    } catch (error) {
      logError('cgroup', error);
      return { name: '', fd: -1, processes: NOTHING };
    }
  }

  #remove(name: string): void {
    const isGone = addon.removeDirectory(this.#parentFd, name) === 0 || this.#removeTree(name);
    if (isGone) {
      this.#cgroups.delete(name);
      this.#released.delete(name);
    } else {
      this.#released.add(name);
    }
  }

  /** Removes cgroups that the command created below its own. False while one of them is in use. */
  #removeTree(name: string): boolean {
    const top = `${this.#root}/${PARENT}/${name}`;
    if (addon.readText(NO_DIRECTORY, `${top}/cgroup.events`).includes('populated 1')) return false;
    const nested = readdirSync(top, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => `${entry.parentPath}/${entry.name}`)
      .sort((a, b) => b.length - a.length);
    for (const path of nested) addon.removeDirectory(NO_DIRECTORY, path);
    return addon.removeDirectory(this.#parentFd, name) === 0;
  }
}

export function addUsage(a: ProcessUsage, b: ProcessUsage): ProcessUsage {
  return {
    cpuUserUs: a.cpuUserUs + b.cpuUserUs,
    cpuSystemUs: a.cpuSystemUs + b.cpuSystemUs,
    majorFaults: a.majorFaults + b.majorFaults,
    involuntarySwitches: a.involuntarySwitches + b.involuntarySwitches,
    readBytes: a.readBytes + b.readBytes,
    writtenBytes: a.writtenBytes + b.writtenBytes,
  };
}

function isPopulated(fd: number): boolean {
  return fd >= 0 && addon.readText(fd, 'cgroup.events').includes('populated 1');
}

function limit(directory: number, prefix: string, { pids, memoryBytes }: Share): void {
  // A kernel may lack a controller.
  addon.writeText(directory, `${prefix}pids.max`, String(pids));
  addon.writeText(directory, `${prefix}memory.max`, String(memoryBytes));
}

export function readGuestSize(): GuestSize {
  const read = (path: string): string => addon.readText(NO_DIRECTORY, path);
  return {
    memoryBytes: kibibyteField(read('/proc/meminfo'), 'MemTotal'),
    threadsMax: Number(read('/proc/sys/kernel/threads-max')),
    pidMax: Number(read('/proc/sys/kernel/pid_max')),
  };
}

function enable(path: string, controller: string): void {
  // One write for each controller: a kernel may lack one of them.
  addon.writeText(NO_DIRECTORY, `${path}/cgroup.subtree_control`, `+${controller}`);
}

/** The number after `key` in a flat keyed file ("key 12"); 0 when absent. */
export function keyedNumber(text: string, key: string): number {
  const at = text.startsWith(`${key} `) ? 0 : text.indexOf(`\n${key} `) + 1;
  if (at === 0 && !text.startsWith(`${key} `)) return 0;
  return Number.parseInt(text.slice(at + key.length + 1), 10) || 0;
}

/** Sum over all devices of `key` in io.stat ("8:0 rbytes=1 wbytes=2 …"). */
export function sumIo(text: string, key: string): number {
  let sum = 0;
  for (const match of text.matchAll(new RegExp(`\\b${key}=([0-9]+)`, 'g'))) sum += Number(match[1]);
  return sum;
}

/**
 * A command's usage. Each number comes from the more complete source: a cgroup also counts running and unreaped
 * processes, rusage also counts what a cgroup does not.
 */
export function toResourceUsage(usage: CgroupUsage): ResourceUsage {
  const { processes } = usage;
  return {
    cpuUserUs: Math.max(keyedNumber(usage.cpuStat, 'user_usec'), processes.cpuUserUs),
    cpuSysUs: Math.max(keyedNumber(usage.cpuStat, 'system_usec'), processes.cpuSystemUs),
    peakMemoryBytes: Number.parseInt(usage.memoryPeak, 10) || 0,
    pageFaultsMajor: Math.max(keyedNumber(usage.memoryStat, 'pgmajfault'), processes.majorFaults),
    contextSwitchesInvoluntary: processes.involuntarySwitches,
    ioReadBytes: Math.max(sumIo(usage.ioStat, 'rbytes'), processes.readBytes),
    ioWriteBytes: Math.max(sumIo(usage.ioStat, 'wbytes'), processes.writtenBytes),
  };
}

/** Whether the kernel's OOM killer ended a process of this command. */
export function wasOomKilled(usage: CgroupUsage): boolean {
  return keyedNumber(usage.memoryEvents, 'oom_kill') > 0;
}
