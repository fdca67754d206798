// Configures a fake VMM's faults: a JSON file that it reads before every action, so that a test can change it at any
// time.
import { readFileSync } from 'node:fs';

export type Fault = {
  /** `spawn`, an endpoint such as `vm.pause`, or `vsock`. */
  readonly at: string;
  readonly kind: /** Refused with `reasons` and `status`, without any effect. */
    | 'refuse'
    /** Never answered; later requests are not answered either. */
    | 'hang'
    /** The process dies before the action, or after it but before the response. */
    | 'die'
    | 'die-after'
    /** Executed, but the connection closes instead of a response. */
    | 'drop'
    /** Refused with an empty body, or with the object that is not JSON. */
    | 'empty'
    | 'raw'
    /** vm.pause: vCPUs stop, but the reported state is running. vm.snapshot: some files exist, the last one in part. */
    | 'half'
    /** vm.snapshot: an unexpected extra file; executed, but a deleted file is still open. */
    | 'hoard'
    | 'keep';
  /** How often; always when absent. */
  readonly times?: number;
  /** Applies only to a request with this text in its body. */
  readonly needs?: string;
  readonly status?: number;
  readonly reasons?: readonly string[];
};

export type Trial =
  | 'lives'
  /** Firmware and kernel print, including the command line; then the guest stops. */
  | 'dies'
  /** Every step takes a second. */
  | 'crawls'
  /** Copies never run. */
  | 'freezes'
  /** Copies start as a cold boot does. */
  | 'forgets';

export type Knobs = {
  readonly version: '52' | '53' | 'next';
  readonly faults: readonly Fault[];
  /** Duration of an endpoint's action, during which no other is answered. */
  readonly latencyMs: Readonly<Record<string, number>>;
  /** Time from boot until the guest's driver accepts connections. */
  readonly guestUpMs: number;
  /** Whether the host has userfaultfd. */
  readonly hasUserfaultfd: boolean;
  /** Whether memory can be a private mapping of a file. */
  readonly canMap: boolean;
  /** Time until a copy's memory is loaded; it cannot be saved before. */
  readonly fillMs: number;
  /** Time from a guest's power-off to the exit of the process. */
  readonly endMs: number;
  readonly cpu: string;
  /** Chunk size of writes to the event log. */
  readonly eventBytes: number;
  readonly losesLastEvent: boolean;
  /** Where fakes record their disk locks. */
  readonly locksDir: string;
  readonly isConsoleSilent: boolean;
  /** A panic causes an event, and the guest stops; otherwise the guest resets itself. */
  readonly hasPvpanic: boolean;
  /** State reported by vm.info instead of the real one. */
  readonly shownState?: string;
  /** Behaviour of probe guests. */
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

/** The configured fault for this action, if any. */
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
  // The signal is pending.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
}
