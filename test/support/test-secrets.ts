// Secrets of a daemon under test, sealed in its own data directory.
import type { Logger } from 'pino';
import { Sealer } from '../../host-agent/src/lib/seal.ts';
import { SandboxSecrets, SecretSources, SecretStore } from '../../host-agent/src/secrets/index.ts';
import type { SourceOptions } from '../../host-agent/src/secrets/sources.ts';
import type { Store } from '../../host-agent/src/store/store.ts';

/** `named`: sources of the operator. */
export function openTestSecrets(
  dataDir: string,
  store: Store,
  log: Logger,
  named: Partial<SourceOptions> = {},
) {
  const sealer = new Sealer({ dataDir });
  const none = { files: new Map(), commands: new Map(), credentials: new Map() };
  const sources = new SecretSources({ ...none, ...named });
  const secretStore = new SecretStore({ store, sealer, sources, log });
  return { sealer, secretStore, sandboxSecrets: new SandboxSecrets(sealer, secretStore, log) };
}
