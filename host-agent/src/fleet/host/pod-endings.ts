// Pods that are deleted: their services get the stop signal, and have the grace period of the pod to end.

import { isStopped } from './pod-outcome.ts';
import type { PodSandboxes } from './pod-sandboxes.ts';

export class PodEndings {
  readonly #sandboxes: Pick<PodSandboxes, 'stateOf' | 'service' | 'stopService'>;
  readonly #limit: () => AbortSignal;
  /** Until when they are waited for. */
  readonly #untilMs = new Map<string, number>();

  constructor(
    sandboxes: Pick<PodSandboxes, 'stateOf' | 'service' | 'stopService'>,
    limit: () => AbortSignal,
  ) {
    this.#sandboxes = sandboxes;
    this.#limit = limit;
  }

  /**
   * Whether its sandbox can end now: its service has ended, or had its time. A sandbox without one, and one whose guest
   * does not answer, are not waited for. Never rejects.
   */
  async isOver(id: string, graceS: number): Promise<boolean> {
    if (graceS === 0 || this.#sandboxes.stateOf(id)?.state !== 'running') return true;
    const known = this.#untilMs.get(id);
    const now = performance.now();
    if (known !== undefined && now >= known) return true;
    // A grace period can be made shorter.
    this.#untilMs.set(id, Math.min(known ?? Number.POSITIVE_INFINITY, now + graceS * 1000));
    if (known === undefined) {
      if (await this.#isStopped(id)) return true;
      await this.#sandboxes.stopService(id, graceS * 1000, this.#limit()).catch(() => undefined);
    }
    return await this.#isStopped(id);
  }

  forget(id: string): void {
    this.#untilMs.delete(id);
  }

  async #isStopped(id: string): Promise<boolean> {
    const service = await this.#sandboxes.service(id, this.#limit()).catch(() => undefined);
    return service === undefined || isStopped(service);
  }
}
