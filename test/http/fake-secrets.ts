// Stored secrets of an app under test: three.
import type { HttpServices } from '../../host-agent/src/http/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import type { SecretInfo } from '../../host-agent/src/secrets/index.ts';

const NAMES = ['github', 'stripe', 'maps'];

function secretOf(name: string): SecretInfo {
  return { name, hosts: ['a.example'], digest: '0123456789ab', createdAtMs: 0, changedAtMs: 0 };
}

function find(name: string): SecretInfo {
  if (NAMES.includes(name)) return secretOf(name);
  throw new AppError('not_found', `secret ${name} does not exist`);
}

export const FAKE_SECRETS: Pick<HttpServices, 'secrets' | 'digestSecrets'> = {
  secrets: {
    list: () => NAMES.map(secretOf),
    get: (_, name) => find(name),
    put: async (_, name) => ({ ...secretOf(name), isNew: true }),
    remove: async (_, name) => void find(name),
  },
  digestSecrets: (text) => `digest of ${text.length}`,
};
