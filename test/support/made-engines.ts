// Fake engines whose probe results a test defines, when it chooses.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Engine, EngineProbe, UsableEngine } from '../../host-agent/src/engines/engine.ts';
import { raceSignal } from '../../host-agent/src/lib/wait.ts';

export const works: UsableEngine = { isUsable: true, version: '1', detail: 'well' };

export class MadeEngine {
  readonly name: string;
  readonly accelerator: string;
  readonly isEmulation: boolean;
  /** Signals of its probes, the newest last. */
  readonly signals: AbortSignal[] = [];
  recalled: UsableEngine | undefined;
  program = 'one';
  /** Duration of a probe. */
  afterMs: number;
  #answer = Promise.withResolvers<EngineProbe>();

  /** With an answer, it probes at once. */
  constructor(
    name: string,
    options: { accelerator?: string; answer?: EngineProbe; isEmulation?: boolean; afterMs?: number } = {},
  ) {
    this.name = name;
    this.accelerator = options.accelerator ?? 'kvm';
    this.isEmulation = options.isEmulation ?? false;
    this.afterMs = options.afterMs ?? 0;
    if (options.answer !== undefined) this.#answer.resolve(options.answer);
  }

  answer(probe: EngineProbe): void {
    this.#answer.resolve(probe);
  }

  async obstacle(): Promise<string | undefined> {
    return undefined;
  }

  async probe(signal = new AbortController().signal): Promise<EngineProbe> {
    this.signals.push(signal);
    if (this.afterMs > 0)
      await sleep(this.afterMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    return await raceSignal(this.#answer.promise, signal);
  }

  async fingerprint(): Promise<Record<string, string>> {
    return { program: this.program };
  }

  findVmms(): [] {
    return [];
  }

  recall(probe: UsableEngine): void {
    this.recalled = probe;
  }

  get asEngine(): Engine {
    return this as unknown as Engine;
  }
}
