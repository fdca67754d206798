// Commands and the service stand still while the guest is saved, and in a copy until it knows who it is: what runs in
// between would draw the random bytes, and tell the name, of another guest. It reaches what is in their cgroups; root may
// move a process out of them.
import { AgentError } from '@sandboxd/proto';
import type { ExecCgroups } from './cgroups.ts';

/** What waits for a disk stops when that answers, which may take any time; it runs no instruction of its own before. */
const STOP_WAIT_MS = 500;
const STOP_POLL_MS = 1;

export class Freezer {
  readonly #cgroups: ExecCgroups;
  readonly #waiting: (() => void)[] = [];
  #frozenBy: { readonly incarnation: string | undefined } | undefined;

  constructor(cgroups: ExecCgroups) {
    this.#cgroups = cgroups;
  }

  /** Calls `onStopped` once everything stands still, or was let go on meanwhile. Throws AgentError unsupported. */
  freeze(incarnation: string | undefined, onStopped: () => void): void {
    if (!this.#cgroups.canFreeze) throw new AgentError('unsupported', 'this kernel cannot freeze commands');
    this.#cgroups.setFrozen(true);
    this.#frozenBy = { incarnation };
    const limitMs = performance.now() + STOP_WAIT_MS;
    const look = (): void => {
      if (this.#frozenBy === undefined || this.#cgroups.hasStopped || performance.now() > limitMs)
        onStopped();
      else setTimeout(look, STOP_POLL_MS);
    };
    look();
  }

  thaw(): void {
    if (this.#frozenBy === undefined) return;
    this.#frozenBy = undefined;
    this.#cgroups.setFrozen(false);
    for (const work of this.#waiting.splice(0)) work();
  }

  /** A host said hello. That of the guest that was saved may have forgotten what it asked for; that of a copy has yet to say who it is. */
  greeted(incarnation: string): void {
    if (this.#frozenBy?.incarnation === incarnation) this.thaw();
  }

  /** Throws AgentError busy while nothing can be started. */
  assertThawed(): void {
    if (this.#frozenBy !== undefined)
      throw new AgentError('busy', 'commands stand still, as the guest is saved');
  }

  /** Calls `work` now, or as soon as something can be started. */
  whenThawed(work: () => void): void {
    if (this.#frozenBy === undefined) work();
    else this.#waiting.push(work);
  }
}
