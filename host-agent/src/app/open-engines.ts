// Step of the start: the jail, the guest kernel, and the engine that runs guests on this host.
import { join } from 'node:path';
import { type ResolvedKernel, resolveKernel, seedKernel } from '@sandboxd/rootfs-builder';
import type { Config } from '../config/index.ts';
import { EngineChoice } from '../engines/choice.ts';
import type { Engine, EngineContext } from '../engines/engine.ts';
import { makeAdopters, makeEngines } from '../engines/index.ts';
import { type Isolation, openIsolation } from '../engines/isolation.ts';
import type { AppContext } from './context.ts';

export type OpenedEngines = {
  readonly isolation: Isolation;
  readonly kernel: ResolvedKernel;
  readonly engines: EngineChoice;
  readonly adopters: ReturnType<typeof makeAdopters>;
};

/** In the data directory: which engine works here. */
export const CHOICE_DIR = 'engines';

/** The engines that a daemon with these settings may choose from. */
export function makeCandidates(config: Config, context: Omit<EngineContext, 'program'>): Engine[] {
  return makeEngines(config.engine, context, config.enginePrograms).filter(
    ({ isEmulation }) => !(isEmulation && config.requiresIsolation),
  );
}

/** Whether guests run, and on which engine, is found out behind the start, unless an earlier one on this host has. */
export async function openEngines({
  config,
  log,
  helpers,
  resources,
  signal,
}: AppContext): Promise<OpenedEngines> {
  const jail = config.jail && {
    ...config.jail,
    program: helpers.jail,
    cgroups: { ...config.jail.cgroups, dir: config.dataDir },
  };
  const isolation = await openIsolation({ jail, isRequired: config.requiresIsolation, log });
  if (helpers.kernel !== undefined) await seedKernel(config.dataDir, helpers.kernel);
  const { kernelPath: KERNEL, initramfsPath: INITRD } = config;
  const kernel = await resolveKernel(config.dataDir, { KERNEL, INITRD });
  const scratchDir = join(config.runDir, 'probe');
  const context = {
    kernelPath: kernel.vmlinuxPath,
    initramfsPath: kernel.initramfsPath,
    scratchDir,
    forkMemory: config.forkMemory,
    probeTimeoutMs: config.probeTimeoutMs,
    jail: isolation.jail,
    claimProgram: helpers.claim,
    memfdProgram: helpers.memfd,
    log,
  };
  const candidates = makeCandidates(config, context);
  const cacheDir = join(config.dataDir, CHOICE_DIR);
  const engines = await EngineChoice.open({ engines: candidates, kernel, cacheDir, scratchDir, log }, signal);
  resources.use(engines);
  return { isolation, kernel, engines, adopters: makeAdopters(context, config.enginePrograms) };
}
