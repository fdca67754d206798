// The service supervisor: executes the state machine of states.ts.
import type { ExecResultInput, ServiceSpec } from '@sandboxd/proto';
import { AgentError, startTimer } from '@sandboxd/proto';
import { randomHex } from '../lib/random.ts';
import { signalNumber } from '../lib/signals.ts';
import type { Launcher, ServiceRun } from './process.ts';
import { RestartBudget } from './restart-policy.ts';
import { OutputRing } from './ring.ts';
import { checkSpec, isSameSpec, toExec, toRestartPolicy } from './spec.ts';
import { isSettled, nextStep, type ServiceAction, type ServiceEvent, type ServiceState } from './states.ts';

/** Id of the empty ring before the first spec. */
const NO_RING_ID = '0'.repeat(16);
/** How long the previous spec's ring is retained for a reader that reconnects. */
const OLD_RING_MS = 60_000;

export type LastExit = {
  readonly result: ExecResultInput;
  readonly unixMs: number;
  readonly isRequested: boolean;
};

export class Supervisor {
  readonly #launch: Launcher;
  readonly #whenThawed: (work: () => void) => void;
  readonly #budget = new RestartBudget();
  readonly #waiting = new Set<() => void>();
  #state: ServiceState = 'idle';
  #spec: ServiceSpec | undefined;
  #run: ServiceRun | undefined;
  #ring = new OutputRing(NO_RING_ID, 0);
  #oldRing: OutputRing | undefined;
  #dropOldRing: () => void = () => {};
  /** Ring and stop settings of the running process. */
  #runRing: OutputRing | undefined;
  #runSpec: ServiceSpec | undefined;
  #startedMs = 0;
  #startedUnixMs = 0;
  #restarts = 0;
  #lastExit: LastExit | undefined;
  #graceMs: number | undefined;
  #stopGrace: () => void = () => {};
  #stopPause: () => void = () => {};

  /** `whenThawed` calls back as soon as a process can be started. */
  constructor(launch: Launcher, whenThawed: (work: () => void) => void = (work) => work()) {
    this.#launch = launch;
    this.#whenThawed = whenThawed;
    this.#ring.seal();
  }

  get state(): ServiceState {
    return this.#state;
  }

  get spec(): ServiceSpec | undefined {
    return this.#spec;
  }

  get restarts(): number {
    return this.#restarts;
  }

  get lastExit(): LastExit | undefined {
    return this.#lastExit;
  }

  /** Defined while the service has a process. */
  get live():
    | { readonly run: ServiceRun; readonly startedUnixMs: number; readonly uptimeMs: number }
    | undefined {
    if (this.#run === undefined) return undefined;
    const uptimeMs = performance.now() - this.#startedMs;
    return { run: this.#run, startedUnixMs: this.#startedUnixMs, uptimeMs };
  }

  /** The newest ring; sealed and empty before the first spec. */
  get ring(): OutputRing {
    return this.#ring;
  }

  /** The ring with that id, if it is retained. */
  findRing(id: string): OutputRing | undefined {
    return [this.#ring, this.#oldRing, this.#runRing].find((ring) => ring?.id === id);
  }

  /** Throws AgentError invalid. */
  configure(spec: ServiceSpec): void {
    checkSpec(spec);
    if (this.#spec === undefined || !isSameSpec(this.#spec, spec)) {
      this.#spec = spec;
      this.#restarts = 0;
      this.#changeRing(new OutputRing(randomHex(), spec.logBufferBytes));
    }
    this.#command('configure');
  }

  /** Throws AgentError conflict without a spec, as does restart. */
  start(): void {
    this.#command('start');
  }

  restart(): void {
    this.#command('restart');
  }

  /** `graceMs` overrides the spec's value. */
  stop(graceMs?: number): void {
    this.#graceMs = graceMs;
    this.#command('stop');
  }

  /** Calls back once when no command is in progress any more, unless the returned function is called before. */
  whenSettled(callback: () => void): () => void {
    if (isSettled(this.#state)) {
      callback();
      return () => {};
    }
    this.#waiting.add(callback);
    return () => this.#waiting.delete(callback);
  }

  #command(event: 'configure' | 'start' | 'stop' | 'restart'): void {
    if (event !== 'stop') {
      this.#budget.reset();
      this.#graceMs = undefined;
    }
    this.#on(event);
  }

  #on(event: ServiceEvent): void {
    const step = nextStep(this.#state, event);
    if (step === undefined) return;
    this.#state = step.to;
    for (const action of step.actions) this.#do(action);
    if (!isSettled(this.#state)) return;
    const callbacks = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of callbacks) callback();
  }

  #do(action: ServiceAction): void {
    if (action === 'launch') this.#whenThawed(() => this.#start());
    else if (action === 'terminate') this.#terminate();
    else if (action === 'regrace') this.#regrace();
    else if (action === 'kill') this.#run?.kill();
    else if (action === 'cancel_pause') this.#stopPause();
    else if (action === 'pause') {
      this.#stopPause = startTimer(this.#budget.pauseMs, () => {
        this.#restarts += 1;
        this.#on('pause_over');
      });
    } else {
      throw new AgentError('conflict', 'no service is configured; configure one first');
    }
  }

  #start(): void {
    const spec = this.#spec;
    if (spec === undefined) return;
    this.#startedMs = performance.now();
    try {
      this.#run = this.#launch(toExec(spec), this.#ring, {
        ended: (result) => this.#onEnded(spec, result),
      });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const durationUs = Math.round((performance.now() - this.#startedMs) * 1000);
      this.#setLastExit({ exitCode: -1, durationUs, error: message }, false);
      this.#on('not_launched');
      return;
    }
    this.#runRing = this.#ring;
    this.#runSpec = spec;
    this.#startedUnixMs = Date.now();
    this.#on('launched');
  }

  #onEnded(spec: ServiceSpec, result: ExecResultInput): void {
    this.#run = undefined;
    this.#stopGrace();
    if (this.#runRing !== this.#ring) this.#runRing?.seal();
    this.#runRing = undefined;
    const isRequested = this.#state !== 'running';
    this.#setLastExit(result, isRequested);
    const isSuccess = result.exitCode === 0;
    const livedMs = performance.now() - this.#startedMs;
    // A requested stop is not judged and uses up no retry.
    this.#on(isRequested ? 'ended_well' : this.#budget.judge(toRestartPolicy(spec), isSuccess, livedMs));
  }

  #setLastExit(result: ExecResultInput, isRequested: boolean): void {
    this.#lastExit = { result, unixMs: Date.now(), isRequested };
  }

  #terminate(): void {
    const { stopSignal = 'SIGTERM', stopGraceMs = 0 } = this.#runSpec ?? {};
    this.#run?.signal(signalNumber(stopSignal) ?? 15);
    this.#regrace(stopGraceMs);
  }

  /**
   * `fallbackMs` applies when the command named no grace period; without either, the current grace period continues.
   */
  #regrace(fallbackMs?: number): void {
    const graceMs = this.#graceMs ?? fallbackMs;
    if (graceMs === undefined) return;
    this.#stopGrace();
    this.#stopGrace = startTimer(graceMs, () => this.#on('grace_over'));
  }

  #changeRing(ring: OutputRing): void {
    const old = this.#ring;
    this.#dropOldRing();
    if (this.#oldRing !== this.#runRing) this.#oldRing?.clear();
    old.next = ring;
    // A running process writes into its own ring until it is gone.
    if (this.#runRing !== old) old.seal();
    this.#oldRing = old;
    this.#ring = ring;
    const drop = (): void => {
      this.#oldRing = undefined;
    };
    this.#dropOldRing = startTimer(OLD_RING_MS, drop, { isUnref: true });
  }
}
