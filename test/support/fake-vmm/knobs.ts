// How a fake VMM shall misbehave: a JSON file that it reads again before everything it does, so that a test can change
// its mind.
import { readFileSync } from 'node:fs';

export type Fault = {
  /** `spawn`, an endpoint such as `vm.pause`, or `vsock`. */
  readonly at: string;
  readonly kind: /** Refused with `reasons` and `status`, nothing done. */
    | 'refuse'
    /** Never answered; whatever comes later is not answered either. */
    | 'hang'
    /** The process is gone before anything is done, or when it is done but not answered. */
    | 'die'
    | 'die-after'
    /** Done, but the connection ends instead of an answer. */
    | 'drop'
    /** Refused with an empty body, or with the object that is no JSON. */
    | 'empty'
    | 'raw'
    /** vm.pause: vCPUs stand, the state says they run. vm.snapshot: some files are there, the last one in part. */
    | 'half'
    /** vm.snapshot: a file more than there must be; done, but a file that is gone is still open. */
    | 'hoard'
    | 'keep';
  /** How often; for ever when absent. */
  readonly times?: number;
  /** Only a request with this in its body. */
  readonly needs?: string;
  readonly status?: number;
  readonly reasons?: readonly string[];
};

export type Trial =
  | 'lives'
  /** Firmware and kernel write, the command line among it; then nothing. */
  | 'dies'
  /** Every step takes a second. */
  | 'crawls'
  /** Copies never run. */
  | 'freezes'
  /** Copies begin where a boot begins. */
  | 'forgets';

export type Knobs = {
  readonly version: '52' | '53' | 'next';
  readonly faults: readonly Fault[];
  /** Time that an endpoint takes, during which no other is answered. */
  readonly latencyMs: Readonly<Record<string, number>>;
  /** Time from boot until the guest's driver answers connection requests. */
  readonly guestUpMs: number;
  /** Whether the host has userfaultfd. */
  readonly hasUserfaultfd: boolean;
  /** Whether memory can be a private mapping of a file. */
  readonly canMap: boolean;
  /** Time that a copy's memory takes to be filled; it cannot be saved meanwhile. */
  readonly fillMs: number;
  /** Time from the end of a guest that powered off to that of the process. */
  readonly endMs: number;
  readonly cpu: string;
  /** Pieces in which the event log is written. */
  readonly eventBytes: number;
  readonly losesLastEvent: boolean;
  /** Where fakes see which disks others hold. */
  readonly locksDir: string;
  readonly isConsoleSilent: boolean;
  /** A panic is told by an event, and the guest stands; without it the guest resets itself. */
  readonly hasPvpanic: boolean;
  /** What vm.info says instead of the truth. */
  readonly shownState?: string;
  /** What trial guests do. */
  readonly trial: Trial;
};

export const USUAL: Omit<Knobs, 'locksDir'> = {
  version: '53',
  faults: [],
  latencyMs: {},
  guestUpMs: 30,
  hasUserfaultfd: true,
  canMap: true,
  fillMs: 0,
  endMs: 0,
  cpu: 'cpu-one',
  eventBytes: 7,
  losesLastEvent: false,
  isConsoleSilent: false,
  hasPvpanic: false,
  trial: 'lives',
};

const used = new Map<string, number>();

export function readKnobs(): Knobs {
  return JSON.parse(readFileSync(process.env.FAKE_VMM_KNOBS ?? '', 'utf8')) as Knobs;
}

/** The fault that is due at this place now, if any. */
export function takeFault(at: string, body = ''): Fault | undefined {
  for (const [index, fault] of readKnobs().faults.entries()) {
    if (fault.at !== at || (fault.needs !== undefined && !body.includes(fault.needs))) continue;
    const key = `${index} ${JSON.stringify(fault)}`;
    const count = used.get(key) ?? 0;
    if (fault.times !== undefined && count >= fault.times) continue;
    used.set(key, count + 1);
    return fault;
  }
  return undefined;
}

export function dieNow(): never {
  process.kill(process.pid, 'SIGKILL');
  // The signal is on its way.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
}
