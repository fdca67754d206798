// Chooses the first engine that works.
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import type { Engine, EngineProbe } from './engine.ts';

export type SelectedEngine = {
  readonly engine: Engine;
  readonly probe: Extract<EngineProbe, { isUsable: true }>;
  /** One line on why this one, for the log and for reports. */
  readonly reason: string;
};

/** Probes in the given order. AppError `unsupported` with every engine's reason when none works. */
export async function selectEngine(
  engines: readonly Engine[],
  log: Logger,
  signal?: AbortSignal,
): Promise<SelectedEngine> {
  const refusals: string[] = [];
  for (const engine of engines) {
    const startedAt = performance.now();
    const probe = await engine.probe(signal);
    if (probe.isUsable) {
      const reason = [`${engine.name} ${probe.version}: ${probe.detail}`, ...refusals].join('; ');
      log.info(
        { engine: engine.name, reason, probeMs: Math.round(performance.now() - startedAt) },
        'engine chosen',
      );
      return { engine, probe, reason };
    }
    refusals.push(`${engine.name}: ${probe.reason}`);
  }
  throw new AppError('unsupported', `no engine can run guests on this host: ${refusals.join('; ')}`, {
    stage: 'probe',
  });
}
