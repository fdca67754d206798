// Step of the start: stored secrets, and those of sandboxes.
import { SandboxSecrets, SecretSources, SecretStore } from '../secrets/index.ts';
import type { AppContext } from './context.ts';
import type { OpenedStore } from './open-store.ts';

export type OpenedSecrets = { readonly secretStore: SecretStore; readonly sandboxSecrets: SandboxSecrets };

export function openSecrets(
  { config, log, resources }: AppContext,
  { store, sealer }: Pick<OpenedStore, 'store' | 'sealer'>,
): OpenedSecrets {
  const sources = new SecretSources(config.secrets.sources);
  const secretStore = new SecretStore({ store, sealer, sources, log });
  const unused = sealer.findUnusedKey();
  if (unused !== undefined)
    log.warn({ path: unused }, 'another key seals secrets now; what this one sealed cannot be used');
  resources.defer(() => secretStore.close());
  return {
    secretStore,
    sandboxSecrets: new SandboxSecrets(sealer, secretStore, log, config.secrets.allowsPlainHttp),
  };
}
