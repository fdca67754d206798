// The engines there are, best first.

import { CloudHypervisorEngine } from './cloud-hypervisor/index.ts';
import type { Engine, EngineContext } from './engine.ts';
import { QemuEngine } from './qemu/index.ts';

const ENGINES: readonly { readonly name: string; readonly make: (context: EngineContext) => Engine }[] = [
  { name: 'cloud-hypervisor', make: (context) => new CloudHypervisorEngine(context) },
  { name: 'qemu', make: (context) => new QemuEngine(context) },
];

export const ENGINE_NAMES: readonly string[] = ENGINES.map(({ name }) => name);

/** Every engine (`auto`), or the one of that name; empty for an unknown name. */
export function makeEngines(
  choice: string,
  context: Omit<EngineContext, 'program'>,
  programs: Readonly<Record<string, string>>,
): Engine[] {
  return ENGINES.filter(({ name }) => choice === 'auto' || choice === name).map(({ name, make }) =>
    make({ ...context, program: programs[name] }),
  );
}
