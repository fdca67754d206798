// Replaces functions of the addon, to simulate other kernel results.
import './addon-dir.ts';
import type { Test } from 'tap';
import { type Addon, addon } from '../../../../guest-agent/src/native/addon.ts';

/** Lasts until the test ends; returns the original functions. */
export function replaceInAddon(t: Test, methods: Partial<Addon>): Addon {
  const real = { ...addon };
  Object.assign(addon, methods);
  t.teardown(() => Object.assign(addon, real));
  return real;
}
