// Settings that commands share with the daemon, found as it finds them: flag, variable, file, default.
import { type Config, loadConfig } from '../config/index.ts';
import { ENGINE_NAMES } from '../engines/index.ts';
import { ensurePrivateDirectory } from '../lib/private-directory.ts';
import type { Flags, Input } from './command.ts';
import { CONFIG_FILE } from './installation.ts';

const SHARED = ['data-dir', 'config'] as const;

export const SHARED_FLAGS: Flags = {
  'data-dir': {
    type: 'string',
    placeholder: 'path',
    help: 'as of the daemon (SANDBOXD_DATA_DIR, data_dir; /var/lib/sandboxd)',
  },
  config: { type: 'string', placeholder: 'path', help: 'the daemon’s file of settings (SANDBOXD_CONFIG)' },
};

/** Throws ConfigError, as the daemon would. */
export function loadSharedConfig(input: Input): Config {
  const argv = SHARED.flatMap((flag) => {
    const value = input.text(flag);
    return value === undefined ? [] : [`--${flag}=${value}`];
  });
  const loaded = loadConfig({ argv, env: process.env, engineNames: ENGINE_NAMES, defaultFile: CONFIG_FILE });
  if (!('config' in loaded)) throw new Error(`settings asked for ${loaded.command}`);
  return loaded.config;
}

/** For what writes there. AppError where it is none that the daemon takes. */
export async function openDataDir(input: Input): Promise<Config> {
  const config = loadSharedConfig(input);
  await ensurePrivateDirectory(config.dataDir);
  return config;
}
