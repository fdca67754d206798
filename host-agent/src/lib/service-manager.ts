// What systemd is told of this daemon, by systemd's own program: Node has no datagrams of Unix sockets.
import type { Logger } from 'pino';
import { toError } from './errors.ts';
import { runProgram } from './programs.ts';

const PROGRAM = 'systemd-notify';
/** One that hangs is no reason to have a second beside it. */
const TIMEOUT_MS = 10_000;

export class ServiceManager implements Disposable {
  readonly #socket: string | undefined;
  readonly #log: Logger;
  readonly #program: string;
  readonly #watchdogMs: number;
  #timer: NodeJS.Timeout | undefined;

  /** Takes its variables out of `env`: what this process starts must not speak for it. */
  constructor(log: Logger, env: NodeJS.ProcessEnv = process.env, program = PROGRAM) {
    const { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID } = env;
    this.#socket = NOTIFY_SOCKET === '' ? undefined : NOTIFY_SOCKET;
    this.#log = log;
    this.#program = program;
    const isMeant = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === process.pid;
    this.#watchdogMs = isMeant ? Number(WATCHDOG_USEC ?? 0) / 1000 : 0;
    for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name];
  }

  get isThere(): boolean {
    return this.#socket !== undefined;
  }

  /** Requests are served from now on; the watchdog hears of this process twice in its time. */
  async ready(status: string): Promise<void> {
    await this.#tell('READY=1', `STATUS=${status}`);
    if (this.#socket === undefined || !(this.#watchdogMs > 0)) return;
    this.#timer = setInterval(() => void this.#tell('WATCHDOG=1'), this.#watchdogMs / 2).unref();
  }

  async stopping(): Promise<void> {
    await this.#tell('STOPPING=1', 'STATUS=stopping');
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** A daemon that cannot say it is as good; without its word systemd ends it, and the log says why. */
  async #tell(...words: string[]): Promise<void> {
    if (this.#socket === undefined) return;
    // Root's word counts as its parent's, which systemd knows: nothing has to be waited for.
    const env = { NOTIFY_SOCKET: this.#socket };
    await runProgram(this.#program, ['--no-block', ...words], { env, timeout: TIMEOUT_MS }).catch(
      (error: unknown) => this.#log.warn({ reason: toError(error).message, words }, 'cannot tell systemd'),
    );
  }
}
