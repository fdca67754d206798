// Checks who has access: whether API keys exist, and careless settings.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { needsKeys } from '../../app/exposure.ts';
import { findExchangeable, findWeakSettings } from '../../app/weak-settings.ts';
import { type Config, formatListen } from '../../config/index.ts';
import { KeyMark, KeyRegistry, stateOf } from '../../keys/index.ts';
import { Store } from '../../store/store.ts';
import { type Finding, fault, type Group, ok, warning } from './host.ts';

const CREATE_KEY = '`sandboxd keys create <name>` makes one, without a restart';

export const keys: Group = {
  name: 'keys',
  check: async ({ config }) => {
    const path = join(config.dataDir, 'state.lmdb');
    // The check must not create the registry.
    if (!existsSync(path)) {
      const mark = new KeyMark(path);
      return [checkNone(mark.exists ? mark.path : undefined, config)];
    }
    const store = await Store.open(path);
    try {
      const registry = new KeyRegistry(store);
      return registry.hasKeys ? checkKeys(registry) : [checkNone(registry.lostMark, config)];
    } finally {
      await store.close();
    }
  },
};

export function checkNone(lostMark: string | undefined, config: Config): Finding {
  if (lostMark !== undefined)
    return fault(
      'keys',
      `none, and ${lostMark} says that there were some: the registry was lost or replaced; no client is accepted`,
      `restore the registry from a backup; or ${CREATE_KEY}`,
    );
  if (!needsKeys(config))
    return ok(
      'keys',
      `none: every client of ${formatListen(config.listen)} has full access` +
        (config.fleet === undefined ? '' : ' unless the fleet has keys'),
    );
  return config.requiresKeys
    ? warning('keys', 'none, and require_keys is set: no client is accepted', CREATE_KEY)
    : warning('keys', 'none: no client is accepted until the fleet has one', CREATE_KEY);
}

function checkKeys(registry: KeyRegistry): Finding[] {
  const valid = registry.list().filter((key) => stateOf(key) === 'valid');
  const unbounded = valid.filter(({ policy, tenant }) => policy === undefined && tenant === undefined);
  const all = unbounded.map(({ name }) => name).join(', ') || 'none';
  return [
    valid.length > 0
      ? ok('keys', `${valid.length} valid; everything of all tenants may be done by: ${all}`)
      : warning('keys', 'none is valid: no client is accepted', CREATE_KEY),
  ];
}

export const settings: Group = {
  name: 'settings',
  check: async ({ config, read }): Promise<readonly Finding[]> => {
    const careless = [
      ...findWeakSettings(config, { read, hasKey: await hasValidKey(config.dataDir) }),
      ...(await findExchangeable(config)),
    ];
    if (careless.length === 0) return [ok('careless', 'none')];
    return careless.map(({ setting, ...finding }) => ({ name: setting, ...finding }));
  },
};

async function hasValidKey(dataDir: string): Promise<boolean> {
  const path = join(dataDir, 'state.lmdb');
  if (!existsSync(path)) return false;
  const store = await Store.open(path);
  try {
    return new KeyRegistry(store).hasValidKey;
  } finally {
    await store.close();
  }
}
