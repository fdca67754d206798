// First step of the start: the daemon's directories, the registry in them, its API keys and the audit trail.
import { join } from 'node:path';
import type { Logger } from 'pino';
import { ANCHOR_TABLE, AUDIT_DIR, AuditTrail } from '../audit/index.ts';
import { KeyRegistry } from '../keys/index.ts';
import { lockDirectory } from '../lib/instance-lock.ts';
import { ensurePrivateDirectory } from '../lib/private-directory.ts';
import { Store } from '../store/store.ts';
import { refuseCareless } from './careless.ts';
import type { AppContext } from './context.ts';
import { assertNotExposed, warnOfNoKeys } from './preconditions.ts';

const KEY_POLL_MS = 2000;

export type OpenedStore = {
  readonly store: Store;
  readonly registryPath: string;
  readonly keys: KeyRegistry;
  /** Undefined when the audit trail is off. */
  readonly audit: AuditTrail | undefined;
};

/** ConfigError or AppError conflict when the daemon must not start with these settings and keys. */
export async function openStore({ config, log, resources }: AppContext): Promise<OpenedStore> {
  for (const dir of [config.dataDir, config.runDir]) {
    const change = await ensurePrivateDirectory(dir);
    if (change !== undefined) log.warn(change);
    resources.use(await lockDirectory(dir));
  }
  const registryPath = join(config.dataDir, 'state.lmdb');
  const store = await Store.open(registryPath);
  resources.defer(() => store.close());
  const keys = new KeyRegistry(store, { isRequired: config.requiresKeys });
  assertNotExposed(config, keys);
  await keys.ensureMark();
  warnOfNoKeys(config, keys, log);
  refuseCareless(config, keys.hasValidKey, log);
  const dir = join(config.dataDir, AUDIT_DIR);
  const audit =
    config.audit && new AuditTrail({ ...config.audit, dir, anchors: store.table(ANCHOR_TABLE), log });
  resources.defer(() => audit?.close());
  resources.use(followKeys(keys, audit, log));
  return { store, registryPath, keys, audit };
}

/** Copies key changes of commands to the audit trail, which only the daemon writes. */
function followKeys(keys: KeyRegistry, audit: AuditTrail | undefined, log: Logger): AsyncDisposable {
  const poll = (): Promise<void> =>
    keys
      .takeChanges(({ atMs, keyId, ...change }) =>
        audit?.write({ event: 'keys', ...change, key_id: keyId, changed_at: new Date(atMs).toISOString() }),
      )
      .catch((err: unknown) => log.warn({ err }, 'cannot read the key changes for the audit trail'));
  const timer = setInterval(() => void poll(), KEY_POLL_MS).unref();
  return {
    [Symbol.asyncDispose]: () => {
      clearInterval(timer);
      return poll();
    },
  };
}
