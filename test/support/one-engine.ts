// An engine choice with exactly one engine, for tests of code that starts guests.
import type { Engines } from '../../host-agent/src/engines/choice.ts';
import type { Engine } from '../../host-agent/src/engines/engine.ts';

export function oneEngine(current: Engine): Engines {
  return {
    current,
    ifChosen: current,
    chosen: async () => current,
    onceChosen: (use) => use(),
    markProven: () => undefined,
    bootOrReplaceEngine: (boot) => boot(),
    withReplacement: (work) => work(),
  };
}
