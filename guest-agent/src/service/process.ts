// One run of the service: from its launch until all of its processes are gone.
import type { ExecResultInput } from '@sandboxd/proto';
import { addUsage, type Cgroup, type ExecCgroups, toResourceUsage, wasOomKilled } from '../exec/cgroups.ts';
import { type Command, LaunchError, launch } from '../exec/launch.ts';
import { logError } from '../lib/log.ts';
import { signalName } from '../lib/signals.ts';
import { addon } from '../native/addon.ts';
import type { Poller } from '../native/poller.ts';
import type { Exit, ProcessUsage, Reaper } from '../reap/reaper.ts';
import { OutputTap } from './output-tap.ts';
import type { OutputRing } from './ring.ts';

/** Maximum wait for killed processes to exit; a process in a disk operation does not exit at once. */
const VANISH_LIMIT_MS = 5000;
const VANISH_POLL_MS = 5;

const SIGKILL = 9;

type ProcessContext = {
  readonly poller: Poller;
  readonly reaper: Reaper;
  readonly cgroups: ExecCgroups;
};

/** The supervisor's interface to a run. */
export interface ServiceRun {
  readonly pid: number;
  /** Signals the process group. */
  signal(number: number): void;
  /** Sends SIGKILL to all processes. */
  kill(): void;
  /** All running processes of the run. */
  pids(): readonly number[];
}

export type RunEvents = {
  /** Called once, after all processes are gone. */
  ended(result: ExecResultInput): void;
};

export type Launcher = (exec: Command, ring: OutputRing, events: RunEvents) => ServiceRun;

/** Creates the launcher of real processes. The launcher throws LaunchError. */
export function createLauncher(context: ProcessContext): Launcher {
  return (exec, ring, events) => {
    const startedUs = nowUs();
    const cgroup = context.cgroups.acquire();
    try {
      const { pid, descriptors } = launch(exec, cgroup);
      const taps = [new OutputTap(context.poller, descriptors.output, 'stdout', ring)];
      if (descriptors.error !== undefined)
        taps.push(new OutputTap(context.poller, descriptors.error, 'stderr', ring));
      return new ProcessRun({ context, cgroup, pid, taps, startedUs, events });
    } catch (error) {
      context.cgroups.release(cgroup);
      if (!(error instanceof LaunchError)) logError('service', error);
      throw error;
    } finally {
      context.cgroups.restock();
    }
  };
}

type RunParts = {
  readonly context: ProcessContext;
  readonly cgroup: Cgroup;
  readonly pid: number;
  readonly taps: readonly OutputTap[];
  readonly startedUs: number;
  readonly events: RunEvents;
};

class ProcessRun implements ServiceRun {
  readonly pid: number;
  readonly #parts: RunParts;
  #exit: { readonly exit: Exit; readonly durationUs: number } | undefined;

  constructor(parts: RunParts) {
    this.pid = parts.pid;
    this.#parts = parts;
    parts.context.reaper.expect(parts.pid, (exit, usage) => this.#onExit(exit, usage));
  }

  signal(number: number): void {
    // While the group's leader is not reaped, the kernel cannot reuse its pid.
    if (this.#exit === undefined) addon.kill(-this.pid, number);
  }

  kill(): void {
    const { context, cgroup } = this.#parts;
    if (!context.cgroups.kill(cgroup)) this.signal(SIGKILL);
  }

  pids(): readonly number[] {
    const { context, cgroup } = this.#parts;
    const listed = context.cgroups.pids(cgroup);
    return listed.length > 0 || this.#exit !== undefined ? listed : [this.pid];
  }

  #onExit(exit: Exit, usage: ProcessUsage): void {
    const { cgroup, startedUs } = this.#parts;
    this.#exit = { exit, durationUs: nowUs() - startedUs };
    cgroup.processes = addUsage(cgroup.processes, usage);
    // Remaining processes would keep ports and files that the next run needs.
    this.kill();
    this.#awaitVanishing(VANISH_LIMIT_MS);
  }

  #awaitVanishing(leftMs: number): void {
    const { context, cgroup, taps } = this.#parts;
    if (leftMs > 0 && (context.cgroups.isPopulated(cgroup) || taps.some((tap) => !tap.drain()))) {
      setTimeout(() => this.#awaitVanishing(leftMs - VANISH_POLL_MS), VANISH_POLL_MS);
      return;
    }
    for (const tap of taps) tap.close();
    this.#finish();
  }

  #finish(): void {
    if (this.#exit === undefined) return;
    const { context, cgroup, events } = this.#parts;
    const { exit, durationUs } = this.#exit;
    const counted = context.cgroups.readUsage(cgroup);
    context.cgroups.release(cgroup);
    events.ended({
      exitCode: exit.signal === 0 ? exit.exitCode : 128 + exit.signal,
      durationUs,
      signal: exit.signal === 0 ? '' : signalName(exit.signal),
      oomKilled: wasOomKilled(counted),
      usage: toResourceUsage(counted),
    });
  }
}

function nowUs(): number {
  return Math.round(performance.now() * 1000);
}
