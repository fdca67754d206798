// What was installed with the program: it lies beside the executable, wherever that is.
import { dirname, join } from 'node:path';

const directory = dirname(process.execPath);

/** Goes into every guest. */
export const AGENT_DIR = join(directory, 'agent');
/** Init of the initramfs. */
export const INIT_PATH = join(directory, 'guest-init');
/** Jails VMMs. */
export const JAIL_PROGRAM = join(directory, 'jail');
/** Has the `node_modules` with runtimes that built-in recipes take from npm. */
export const NPM_DIR = directory;
