// An addon that answers otherwise than the kernel of this machine does.
import './addon-dir.ts';
import type { Test } from 'tap';
import { type Addon, addon } from '../../../../guest-agent/src/native/addon.ts';

/** Until the test ends; what answered before is returned. */
export function replaceInAddon(t: Test, methods: Partial<Addon>): Addon {
  const real = { ...addon };
  Object.assign(addon, methods);
  t.teardown(() => Object.assign(addon, real));
  return real;
}
