// Fake engines whose probe results a test defines, when it chooses.
import type { Engine, EngineProbe, UsableEngine } from '../../host-agent/src/engines/engine.ts';

export const works: UsableEngine = { isUsable: true, version: '1', detail: 'well' };

export class MadeEngine {
  readonly name: string;
  readonly accelerator: string;
  readonly isEmulation: boolean;
  /** Signals of its probes, the newest last. */
  readonly signals: AbortSignal[] = [];
  recalled: UsableEngine | undefined;
  program = 'one';
  #answer = Promise.withResolvers<EngineProbe>();

  /** With an answer, it probes at once. */
  constructor(
    name: string,
    options: { accelerator?: string; answer?: EngineProbe; isEmulation?: boolean } = {},
  ) {
    this.name = name;
    this.accelerator = options.accelerator ?? 'kvm';
    this.isEmulation = options.isEmulation ?? false;
    if (options.answer !== undefined) this.#answer.resolve(options.answer);
  }

  answer(probe: EngineProbe): void {
    this.#answer.resolve(probe);
  }

  async obstacle(): Promise<string | undefined> {
    return undefined;
  }

  async probe(signal: AbortSignal): Promise<EngineProbe> {
    this.signals.push(signal);
    const given = Promise.withResolvers<never>();
    const terminate = (): void => given.reject(signal.reason);
    if (signal.aborted) terminate();
    signal.addEventListener('abort', terminate, { once: true });
    return await Promise.race([this.#answer.promise, given.promise]);
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
