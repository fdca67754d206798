// Notifies systemd by its own program, systemd-notify: Node has no Unix datagram sockets.
import type { Logger } from 'pino';
import { toError } from './errors.ts';
import { runProgram } from './programs.ts';

const PROGRAM = 'systemd-notify';
/** A systemd-notify that hangs must not block the next notification. */
const TIMEOUT_MS = 10_000;

export class ServiceManager implements Disposable {
  readonly #socket: string | undefined;
  readonly #log: Logger;
  readonly #program: string;
  readonly #watchdogMs: number;
  #timer: NodeJS.Timeout | undefined;

  /** Removes its variables from `env`, so that child processes cannot notify systemd. */
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

  /** Reports readiness, then pings the watchdog twice per interval. */
  async ready(status: string): Promise<void> {
    await this.#notify('READY=1', `STATUS=${status}`);
    if (this.#socket === undefined || !(this.#watchdogMs > 0)) return;
    this.#timer = setInterval(() => void this.#notify('WATCHDOG=1'), this.#watchdogMs / 2).unref();
  }

  async stopping(): Promise<void> {
    await this.#notify('STOPPING=1', 'STATUS=stopping');
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /**
   * A failed notification is only logged. If systemd misses the watchdog ping, it ends the daemon, and the log has the
   * reason.
   */
  async #notify(...fields: string[]): Promise<void> {
    if (this.#socket === undefined) return;
    // systemd accepts a message of a root process as its parent's, so the program need not wait.
    const env = { NOTIFY_SOCKET: this.#socket };
    await runProgram(this.#program, ['--no-block', ...fields], { env, timeout: TIMEOUT_MS }).catch(
      (error: unknown) => this.#log.warn({ reason: toError(error).message, fields }, 'cannot notify systemd'),
    );
  }
}
