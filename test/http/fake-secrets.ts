// Stored secrets of an app under test: one, whatever it is called.
import type { HttpServices } from '../../host-agent/src/http/index.ts';
import type { SecretInfo } from '../../host-agent/src/secrets/index.ts';

function secretOf(name: string): SecretInfo {
  return { name, hosts: ['a.example'], digest: '0123456789ab', createdAtMs: 0, changedAtMs: 0 };
}

export const FAKE_SECRETS: Pick<HttpServices, 'secrets' | 'digestSecrets'> = {
  secrets: {
    list: () => [secretOf('github')],
    get: (_, name) => secretOf(name),
    put: async (_, name) => ({ ...secretOf(name), isNew: true }),
    remove: async () => undefined,
  },
  digestSecrets: (text) => `digest of ${text.length}`,
};
