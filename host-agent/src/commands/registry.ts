// Opens the registry for commands, beside a running daemon or before the first one.
import { join } from 'node:path';
import type { Input } from '@sandboxd/api/command-line';
import { KeyRegistry } from '../keys/index.ts';
import { Store } from '../store/store.ts';
import { loadSharedConfig, openDataDir } from './shared-config.ts';

/** Calls `use` with the opened store. AppError when it cannot be opened. */
export async function withStore<T>(
  input: Input,
  use: (store: Store, dataDir: string) => T | Promise<T>,
): Promise<T> {
  const { dataDir } = await openDataDir(input);
  const store = await Store.open(join(dataDir, 'state.lmdb'), 'beside');
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
  const { requiresKeys } = loadSharedConfig(input);
  return withStore(input, (store, dataDir) =>
    use(new KeyRegistry(store, { by, isRequired: requiresKeys }), dataDir),
  );
}
