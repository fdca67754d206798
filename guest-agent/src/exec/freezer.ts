// Commands and the service are frozen while the guest is snapshotted, and in a copy until it has its own identity. A
// process that ran in between would use the random numbers and the host name of another guest. The freeze covers the
// processes in their cgroups; root in the guest can move a process out of them.
import { AgentError } from '@sandboxd/proto';
import type { ExecCgroups } from './cgroups.ts';

/**
 * A process that waits for a disk stops only when the disk answers, which has no bound. It executes no code before
 * that.
 */
const STOP_WAIT_MS = 500;
const STOP_POLL_MS = 1;

export class Freezer {
  readonly #cgroups: ExecCgroups;
  readonly #waiting: (() => void)[] = [];
  #frozenBy: { readonly incarnation: string | undefined } | undefined;

  constructor(cgroups: ExecCgroups) {
    this.#cgroups = cgroups;
  }

  /** Calls `onStopped` once everything has stopped or was thawed meanwhile. Throws AgentError unsupported. */
  freeze(incarnation: string | undefined, onStopped: () => void): void {
    if (!this.#cgroups.canFreeze) throw new AgentError('unsupported', 'this kernel cannot freeze commands');
    this.#cgroups.setFrozen(true);
    this.#frozenBy = { incarnation };
    const limitMs = performance.now() + STOP_WAIT_MS;
    const poll = (): void => {
      if (this.#frozenBy === undefined || this.#cgroups.hasStopped || performance.now() > limitMs)
        onStopped();
      else setTimeout(poll, STOP_POLL_MS);
    };
    poll();
  }

  thaw(): void {
    if (this.#frozenBy === undefined) return;
    this.#frozenBy = undefined;
    this.#cgroups.setFrozen(false);
    for (const work of this.#waiting.splice(0)) work();
  }

  /**
   * Handles a host's hello. The host of the snapshotted guest may have lost its request, so the guest thaws. The host
   * of a copy has not sent the identity yet, so the copy stays frozen.
   */
  greeted(incarnation: string): void {
    if (this.#frozenBy?.incarnation === incarnation) this.thaw();
  }

  /** Throws AgentError busy while commands are frozen. */
  assertThawed(): void {
    if (this.#frozenBy !== undefined)
      throw new AgentError('busy', 'commands are frozen while the guest is saved');
  }

  /** Calls `work` now, or once commands are thawed. */
  whenThawed(work: () => void): void {
    if (this.#frozenBy === undefined) work();
    else this.#waiting.push(work);
  }
}
