// Lists settings that the daemon refuses or warns of at start.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findCareless, findExchangeable } from '../../app/careless.ts';
import { KeyRegistry } from '../../keys/index.ts';
import { Store } from '../../store/store.ts';
import { type Finding, type Group, ok } from './host.ts';

export const settings: Group = {
  name: 'settings',
  check: async ({ config, read }): Promise<readonly Finding[]> => {
    const careless = [
      ...findCareless(config, { read, hasKey: await hasValidKey(config.dataDir) }),
      ...(await findExchangeable(config)),
    ];
    if (careless.length === 0) return [ok('careless', 'none')];
    return careless.map(({ setting, ...finding }) => ({ name: setting, ...finding }));
  },
};

async function hasValidKey(dataDir: string): Promise<boolean> {
  const path = join(dataDir, 'state.lmdb');
  if (!existsSync(path)) return false;
  const store = await Store.open(path, 'beside');
  try {
    return new KeyRegistry(store).hasValidKey;
  } finally {
    await store.close();
  }
}
