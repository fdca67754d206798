// Secrets of a daemon under test, sealed in its own data directory.
import type { Logger } from 'pino';
import { Sealer } from '../../host-agent/src/lib/seal.ts';
import { SandboxSecrets, SecretSources, SecretStore } from '../../host-agent/src/secrets/index.ts';
import type { Store } from '../../host-agent/src/store/store.ts';

const NONE = new Map<string, string>();

export function openTestSecrets(dataDir: string, store: Store, log: Logger) {
  const sealer = new Sealer({ dataDir });
  const sources = new SecretSources({ files: NONE, commands: NONE, credentials: NONE });
  const secretStore = new SecretStore({ store, sealer, sources, log });
  return { sealer, secretStore, sandboxSecrets: new SandboxSecrets(sealer, secretStore, log) };
}
