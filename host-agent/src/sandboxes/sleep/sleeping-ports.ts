// Published ports of sandboxes that sleep: a connection is held, and resumes its sandbox, or is refused.
import type { Logger } from 'pino';
import { firstLine, isAppError, toError } from '../../lib/errors.ts';
import type { PortMode } from '../../network/index.ts';
import type { SandboxNetworks } from '../resources/resource.ts';
import type { Sandbox } from '../sandbox.ts';

/** Connections are refused for this long after a resume that failed, so that clients do not repeat it all the time. */
const REFUSED_MS = 5000;

type SleepingPortsDeps = {
  readonly network: Pick<SandboxNetworks, 'setPorts' | 'endConnections'>;
  /** Resumes it for a connection. Rejects when it stays paused, or takes too long. */
  readonly wake: (sandbox: Sandbox) => Promise<void>;
  readonly log: Logger;
};

export class SleepingPorts {
  readonly #deps: SleepingPortsDeps;

  constructor(deps: SleepingPortsDeps) {
    this.#deps = deps;
  }

  /** Before it falls asleep, or when a paused one is adopted. Never rejects: its connections wait in vain then. */
  async hold(sandbox: Sandbox): Promise<void> {
    const isRefusing = sandbox.record.options.autoResume === false;
    await this.#set(sandbox, isRefusing ? 'refuse' : 'hold');
  }

  /** For a rollback, after which its guest runs again. Never rejects. */
  async holdMeanwhile(sandbox: Sandbox): Promise<void> {
    await this.#set(sandbox, 'hold');
  }

  /** When its guest can be reached: held connections continue. Never rejects. */
  async open(sandbox: Sandbox): Promise<void> {
    await this.#set(sandbox, 'open');
  }

  /** Before `open`, where another guest runs, which knows none of the connections. Never rejects. */
  async endConnections(sandbox: Sandbox): Promise<void> {
    const { network: slot, options } = sandbox.record;
    if (slot === undefined || (options.publish ?? []).length === 0) return;
    await this.#deps.network
      .endConnections(slot)
      .catch((err) =>
        this.#log(sandbox).warn({ err }, 'cannot end the connections to published ports of a sandbox'),
      );
  }

  async #set(sandbox: Sandbox, mode: PortMode): Promise<void> {
    const { network: slot, options } = sandbox.record;
    if (slot === undefined || (options.publish ?? []).length === 0) return;
    await this.#deps.network
      .setPorts(slot, mode, () => void this.#connected(sandbox))
      .catch((err) =>
        this.#log(sandbox).warn({ err, mode }, 'cannot change the published ports of a sandbox'),
      );
  }

  /** A client has connected. */
  async #connected(sandbox: Sandbox): Promise<void> {
    sandbox.note('network: a connection to a published port resumes the sandbox');
    try {
      await this.#deps.wake(sandbox);
    } catch (err) {
      // The next daemon is asked again.
      if (isAppError(err) && err.code === 'cancelled') return;
      if (sandbox.running !== undefined || sandbox.leaving.aborted) return;
      sandbox.note(`network: a connection to a published port is refused: ${firstLine(toError(err))}`);
      this.#log(sandbox).warn({ err }, 'cannot resume a sandbox for a connection to its published port');
      await this.#set(sandbox, 'refuse');
      setTimeout(() => {
        if (sandbox.running === undefined && !sandbox.leaving.aborted) void this.hold(sandbox);
      }, REFUSED_MS).unref();
    }
  }

  #log({ id }: Sandbox): Logger {
    return this.#deps.log.child({ sandbox: id });
  }
}
