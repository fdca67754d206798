// Who is let in: whether there are keys, and whether any may do more than it looks like.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, formatListen } from '../../config/index.ts';
import { findWideGrants, KeyMark, KeyRegistry, stateOf } from '../../keys/index.ts';
import { isAppError } from '../../lib/errors.ts';
import { Store } from '../../store/store.ts';
import { type Finding, fault, type Group, ok, warning } from './host.ts';

const MAKE_ONE = '`sandboxd keys create <name>` makes one, without a restart';

export const keys: Group = {
  name: 'keys',
  check: async ({ config }) => {
    const path = join(config.dataDir, 'state.lmdb');
    // Looking makes no registry.
    if (!existsSync(path)) {
      const mark = new KeyMark(path);
      return [checkNone(mark.exists ? mark.path : undefined, config)];
    }
    let store: Store;
    try {
      store = await Store.open(path, 'beside');
    } catch (error) {
      if (!isAppError(error) || error.code !== 'conflict') throw error;
      return [warning('keys', 'the registry is of an older daemon', 'start this version of the daemon')];
    }
    try {
      const registry = new KeyRegistry(store);
      return registry.hasKeys ? checkKeys(registry) : [checkNone(registry.lostMark, config)];
    } finally {
      await store.close();
    }
  },
};

function checkNone(lostMark: string | undefined, { listen, requiresKeys }: Config): Finding {
  if (lostMark !== undefined)
    return fault(
      'keys',
      `none, and ${lostMark} says that there were some: the registry was lost, or is another; nobody is let in`,
      `restore the registry from a backup; or ${MAKE_ONE}`,
    );
  return requiresKeys
    ? warning('keys', 'none, and require_keys is set: nobody is let in', MAKE_ONE)
    : ok('keys', `none: who reaches ${formatListen(listen)} may do everything`);
}

function checkKeys(registry: KeyRegistry): Finding[] {
  const valid = registry.list().filter((key) => stateOf(key) === 'valid');
  const wide = valid.flatMap((key) => {
    const grants = findWideGrants(key);
    return grants.length === 0 ? [] : [`${key.name} (${grants.join(', ')})`];
  });
  const unbounded = valid.filter(({ policy, tenant }) => policy === undefined && tenant === undefined);
  const all = unbounded.map(({ name }) => name).join(', ') || 'none';
  return [
    valid.length > 0
      ? ok('keys', `${valid.length} valid; everything of all tenants may be done by: ${all}`)
      : warning('keys', 'none is valid: nobody is let in', MAKE_ONE),
    wide.length === 0
      ? ok('wide keys', 'none')
      : warning(
          'wide keys',
          `older than some words of policies, and keep what they could: ${wide.join('; ')}`,
          'replace each with one that names what it needs (docs/keys.md): sandboxd keys revoke <name>, then keys create',
        ),
  ];
}
