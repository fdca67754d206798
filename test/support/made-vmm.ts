// A fake VMM without behaviour of its own: the test defines its answers and its exit.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import type {
  Control,
  Controlled,
  ControlOptions,
  GuestState,
  VmmFiles,
  VmmKind,
} from '../../host-agent/src/engines/control.ts';
import type { SaveOptions, VmmIdentity, VmPaths } from '../../host-agent/src/engines/engine.ts';
import type { ProcessEnd, VmmProcess } from '../../host-agent/src/engines/vmm-process.ts';
import { readBootId } from '../../host-agent/src/lib/proc.ts';

/** Prefix of its control socket's path, as the process name. */
const NAME = 'made-vmm:';

export class MadeControl implements Control {
  readonly vm: Controlled;
  readonly options: ControlOptions;
  /** Its calls, in order. */
  readonly calls: string[] = [];
  ioPauseReason: string | undefined;
  state: GuestState = { kind: 'runs' };
  /** Called for each call before the answer. */
  on: Partial<Record<string, (...args: never[]) => unknown>> = {};

  constructor(vm: Controlled, options: ControlOptions) {
    this.vm = vm;
    this.options = options;
  }

  async connect(signal: AbortSignal): Promise<boolean> {
    return ((await this.#call('connect', signal)) as boolean | undefined) ?? true;
  }

  async watch(): Promise<void> {
    await this.#call('watch');
  }

  async readState(): Promise<GuestState> {
    await this.#call('readState');
    return this.state;
  }

  async resume(): Promise<void> {
    await this.#call('resume');
  }

  async save(options: SaveOptions) {
    await this.#call('save', options);
    return { memoryPath: 'm', statePath: 's', pausedMs: 1 };
  }

  async resizeDisk(index: number, sizeBytes: number): Promise<void> {
    await this.#call(`resizeDisk ${index} ${sizeBytes}`);
  }

  openChannel: Control['openChannel'] = async (signal) => {
    await this.#call('openChannel', signal);
    throw new Error('it has no channel');
  };

  async ping(timeoutMs: number): Promise<unknown> {
    return await this.#call(`ping ${timeoutMs}`);
  }

  async isEnding(): Promise<boolean> {
    return ((await this.#call('isEnding')) as boolean | undefined) ?? false;
  }

  async explainExit(exitCode: number | null): Promise<string | undefined> {
    return (await this.#call(`explainExit ${exitCode}`)) as string | undefined;
  }

  close(): void {
    this.calls.push('close');
  }

  async #call(text: string, ...args: unknown[]): Promise<unknown> {
    this.calls.push(text);
    return await this.on[text.split(' ', 1)[0] ?? '']?.(...(args as never[]));
  }
}

/** A process that exits when the test decides, or when it is killed. */
export class MadeProcess implements VmmProcess {
  readonly pid = 2 ** 30;
  readonly startTicks = 1;
  readonly signals: string[] = [];
  polls = 0;
  detaches = 0;
  /** Signals that end it. */
  endsOf: readonly string[] = ['SIGKILL'];
  #isOver = false;
  readonly #ended = Promise.withResolvers<ProcessEnd>();
  readonly ended = this.#ended.promise;

  end(exitCode: number | null, signal: string | null = null): void {
    this.#isOver = true;
    this.#ended.resolve({ exitCode, signal });
  }

  signal(name: NodeJS.Signals): boolean {
    this.signals.push(name);
    if (this.#isOver) return false;
    if (this.endsOf.includes(name)) this.end(null, name);
    return true;
  }

  poll(): void {
    this.polls += 1;
  }

  detach(): void {
    this.detaches += 1;
  }
}

export type MadeHost = {
  readonly dir: string;
  readonly paths: VmPaths;
  readonly files: VmmFiles;
  readonly kind: VmmKind;
  readonly identity: VmmIdentity;
  readonly log: Logger;
  readonly lines: Record<string, unknown>[];
  /** Controls of the VMs so far, the newest last. */
  readonly controls: MadeControl[];
  /** Configures a control before its first call. */
  prepare: (control: MadeControl) => void;
};

export function makeHost(t: Test, extra: Partial<VmmFiles> = {}): MadeHost {
  const dir = mkdtempSync(join(tmpdir(), 'made-'));
  // Waiting for a VMM does not keep the process alive.
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => {
    clearInterval(alive);
    rmSync(dir, { recursive: true, force: true });
  });
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null, level: 'debug' }, { write: (text) => void lines.push(JSON.parse(text)) });
  const paths = { dir: join(dir, 'own'), socketDir: join(dir, 'sockets') };
  for (const path of Object.values(paths)) mkdirSync(path);
  const filesOf = (of: VmPaths): VmmFiles => ({
    controlSocketPath: join(of.socketDir, 'control'),
    consolePath: join(of.dir, 'console'),
    logPath: join(of.dir, 'log'),
    socketPaths: [join(of.socketDir, 'control'), join(of.socketDir, 'agent')],
    ...extra,
  });
  const controls: MadeControl[] = [];
  const host: MadeHost = {
    dir,
    paths,
    files: filesOf(paths),
    kind: {
      name: 'made',
      filesOf,
      controlSocketOf: ([name = '']) => (name.startsWith(NAME) ? name.slice(NAME.length) : undefined),
      control: (vm, options) => {
        const control = new MadeControl(vm, options);
        controls.push(control);
        host.prepare(control);
        return control;
      },
      unbatched: 'first-thread',
      answerTimeoutMs: 20_000,
    },
    identity: {
      engine: 'made',
      pid: 2 ** 30,
      startTicks: 1,
      bootId: readBootId(),
      paths,
      memory: { kind: 'anonymous' },
    },
    log,
    lines,
    controls,
    prepare: () => undefined,
  };
  for (const path of host.files.socketPaths) writeFileSync(path, '');
  return host;
}

export const nameOf = (controlSocketPath: string): string => NAME + controlSocketPath;

/** The arguments of a process; empty when it has exited. */
export function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
  } catch {
    return [];
  }
}
