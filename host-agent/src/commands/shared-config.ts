// What commands share with the daemon: settings with the same precedence (flag, variable, file, default), its data
// directory, and the registry in it.
import { join } from 'node:path';
import type { Flags, Input } from '@sandboxd/api/command-line';
import { needsKeys } from '../app/exposure.ts';
import { type Config, loadConfig } from '../config/index.ts';
import { ENGINE_NAMES } from '../engines/index.ts';
import { KeyRegistry } from '../keys/index.ts';
import { ensurePrivateDirectory } from '../lib/private-directory.ts';
import { Store } from '../store/store.ts';
import { CONFIG_FILE } from './installation.ts';

const SHARED = ['data-dir', 'config'] as const;

export const SHARED_FLAGS: Flags = {
  'data-dir': {
    type: 'string',
    placeholder: 'path',
    help: 'data directory of the daemon (SANDBOXD_DATA_DIR, data_dir; /var/lib/sandboxd)',
  },
  config: { type: 'string', placeholder: 'path', help: 'settings file of the daemon (SANDBOXD_CONFIG)' },
};

/** Throws ConfigError, as the daemon does. */
export function loadSharedConfig(input: Input): Config {
  const argv = SHARED.flatMap((flag) => {
    const value = input.text(flag);
    return value === undefined ? [] : [`--${flag}=${value}`];
  });
  const loaded = loadConfig({ argv, env: process.env, engineNames: ENGINE_NAMES, defaultFile: CONFIG_FILE });
  if (!('config' in loaded)) throw new Error(`settings asked for ${loaded.command}`);
  return loaded.config;
}

/** For commands that write to the data directory. AppError when the daemon would refuse the directory. */
export async function openDataDir(input: Input): Promise<Config> {
  const config = loadSharedConfig(input);
  await ensurePrivateDirectory(config.dataDir);
  return config;
}

/** Calls `use` with the opened store. AppError when it cannot be opened. */
export async function withStore<T>(
  input: Input,
  use: (store: Store, dataDir: string) => T | Promise<T>,
): Promise<T> {
  const { dataDir } = await openDataDir(input);
  const store = await Store.open(join(dataDir, 'state.lmdb'));
  try {
    return await use(store, dataDir);
  } finally {
    await store.close();
  }
}

/** `use` also gets the data directory, because keys are valid only for daemons that use it. */
export function withKeys<T>(
  input: Input,
  use: (keys: KeyRegistry, dataDir: string) => T | Promise<T>,
): Promise<T> {
  const by = process.env.SUDO_USER ?? `uid ${process.getuid?.()}`;
  const isRequired = needsKeys(loadSharedConfig(input));
  return withStore(input, (store, dataDir) => use(new KeyRegistry(store, { by, isRequired }), dataDir));
}
