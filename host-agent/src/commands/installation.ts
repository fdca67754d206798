// Files of the installation, which are in the directory of the executable.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ARCHITECTURE } from '@sandboxd/proto';
import { GATEWAY_OPTIONS, type Helpers } from '../app/context.ts';

const directory = dirname(process.execPath);

/** The settings file of a Debian package; other installations have none. */
export const CONFIG_FILE = directory === '/usr/lib/sandboxd' ? '/etc/sandboxd/config.json' : undefined;
/** Its `node_modules` contain the runtimes that built-in recipes take from npm. */
export const NPM_DIR = directory;
/** Copied into every guest. */
export const AGENT_DIR = join(directory, 'agent');
/** Init program of the initramfs. */
export const INIT_PATH = join(directory, 'guest-init');
/** A prepared kernel, part of the Debian package. */
const KERNEL_DIR = join(directory, 'kernel');
/** Node for helper programs that are scripts. */
const RUNTIME = join(directory, `node_modules/node-linux-${ARCHITECTURE.npm}/bin/node`);
/** A script of its own: the daemon's executable would need half as much memory again, and twice as long to start. */
const GATEWAY = join(directory, 'gateway.cjs');
/** The daemon's helper programs. */
export const HELPERS: Helpers = {
  agent: AGENT_DIR,
  npm: NPM_DIR,
  claim: join(directory, 'claim'),
  jail: join(directory, 'jail'),
  memfd: join(directory, 'memfd'),
  peers: join(directory, 'peers'),
  runtime: RUNTIME,
  converter: join(directory, 'convert-image.mjs'),
  netd: join(directory, 'netd'),
  portd: join(directory, 'portd'),
  egressd: join(directory, 'egressd'),
  gateway: { program: RUNTIME, args: [...GATEWAY_OPTIONS, GATEWAY], reads: [GATEWAY] },
  doctor: [process.execPath, 'doctor'],
  diffdisks: join(directory, 'diffdisks'),
  kernel: existsSync(KERNEL_DIR) ? KERNEL_DIR : undefined,
};
