// The engines there are, best first.
import type { Engine, EngineContext } from './engine.ts';
import { QemuEngine } from './qemu/index.ts';

const ENGINES: readonly { readonly name: string; readonly make: (context: EngineContext) => Engine }[] = [
  { name: 'qemu', make: (context) => new QemuEngine(context) },
];

export const ENGINE_NAMES: readonly string[] = ENGINES.map(({ name }) => name);

/** Every engine (`auto`), or the one of that name; empty for an unknown name. */
export function makeEngines(choice: string, context: EngineContext): Engine[] {
  return ENGINES.filter(({ name }) => choice === 'auto' || choice === name).map(({ make }) => make(context));
}
