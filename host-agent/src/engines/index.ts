// All engines, best first.

import { CloudHypervisorEngine } from './cloud-hypervisor/index.ts';
import type { Engine, EngineContext } from './engine.ts';
import { ACCELERATORS } from './qemu/args.ts';
import { QemuEngine } from './qemu/index.ts';

type EngineKind = {
  readonly name: string;
  /** One engine per accelerator, best first. */
  readonly make: (context: EngineContext) => readonly Engine[];
};

const ENGINES: readonly EngineKind[] = [
  { name: 'cloud-hypervisor', make: (context) => [new CloudHypervisorEngine(context)] },
  { name: 'qemu', make: (context) => ACCELERATORS.map((each) => new QemuEngine(context, each)) },
];

export const AUTO = 'auto';
export const ENGINE_NAMES: readonly string[] = ENGINES.map(({ name }) => name);

/** All engines (`auto`), or those with that name; best first. */
export function makeEngines(
  choice: string,
  context: Omit<EngineContext, 'program'>,
  programs: Readonly<Record<string, string>>,
): Engine[] {
  return ENGINES.filter(({ name }) => choice === AUTO || choice === name).flatMap(({ name, make }) =>
    make({ ...context, program: programs[name] }),
  );
}

/** One engine of each name, to adopt the VMs of earlier daemons. */
export function makeAdopters(
  context: Omit<EngineContext, 'program'>,
  programs: Readonly<Record<string, string>>,
): Engine[] {
  const engines = makeEngines(AUTO, context, programs);
  return ENGINE_NAMES.flatMap((name) => engines.find((engine) => engine.name === name) ?? []);
}
