// Step of the start: stored secrets, and what seals them in the registry.
import type { Config } from '../config/index.ts';
import { Sealer } from '../lib/seal.ts';
import { SandboxSecrets, SecretSources, SecretStore } from '../secrets/index.ts';
import type { Store } from '../store/store.ts';
import type { AppContext } from './context.ts';

export type OpenedSecrets = {
  readonly sealer: Sealer;
  readonly secretStore: SecretStore;
  readonly sandboxSecrets: SandboxSecrets;
};

/** Its key is read, or made, at the first use. */
export function openSecrets({ config, log, resources }: AppContext, store: Store): OpenedSecrets {
  const sealer = createSealer(config);
  const { sources } = config.secrets;
  const secretStore = new SecretStore({ store, sealer, sources: new SecretSources(sources), log });
  resources.defer(() => {
    secretStore.close();
    sealer.close();
  });
  return { sealer, secretStore, sandboxSecrets: new SandboxSecrets(sealer, secretStore) };
}

export function createSealer({ dataDir, secrets }: Pick<Config, 'dataDir' | 'secrets'>): Sealer {
  return new Sealer({ dataDir, keyFile: secrets.keyFile, credentialsDir: secrets.sources.credentialsDir });
}
