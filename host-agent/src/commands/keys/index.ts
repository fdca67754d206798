// `sandboxd keys …`: API keys.
import type { NewKey } from '../../keys/index.ts';
import type { Command, Group } from '../command.ts';
import { handOver } from '../hand-over.ts';
import { SHARED_FLAGS, withKeys } from '../shared-config.ts';
import { checkName, checkVisibility, POLICY_FLAGS, parseExpiry, readPolicy } from './flags.ts';
import { list, show, toJson } from './list.ts';

const create: Command = {
  name: 'create',
  operands: '<name>',
  summary: 'create a key and print it, only this once; with the first key, every client needs one',
  flags: {
    ...SHARED_FLAGS,
    tenant: {
      type: 'string',
      placeholder: 'name',
      help: 'the key sees only the resources of this tenant; default: all resources',
    },
    'all-tenants': { type: 'boolean', help: 'the key has a policy and sees the resources of all tenants' },
    expires: {
      type: 'string',
      placeholder: 'time',
      help: 'expiry: 30d, 12h, 2027-01-31T00:00:00Z; default: never',
    },
    ...POLICY_FLAGS,
    json: { type: 'boolean', help: 'print the key and its record as JSON' },
  },
  run: async (input) => {
    const tenant = input.text('tenant');
    const expires = input.text('expires');
    const policy = readPolicy(input);
    const seesAllTenants = input.isSet('all-tenants');
    checkVisibility(tenant, seesAllTenants, policy);
    const newKey: NewKey = {
      name: checkName(input.operands[0] ?? '', 'key'),
      ...(tenant !== undefined && { tenant: checkName(tenant, 'tenant') }),
      ...(expires !== undefined && { expiresAtMs: parseExpiry(expires) }),
      ...(seesAllTenants && { seesAllTenants }),
      ...(policy !== undefined && { policy }),
    };
    const isJson = input.isSet('json');
    const dataDir = await withKeys(input, async (keys, dir) => {
      const { text, key } = await keys.create(newKey);
      const shown = isJson ? JSON.stringify({ key: text, ...toJson(key) }, null, 2) : text;
      await handOver(`${shown}\n`, () => keys.revoke(key.id));
      return dir;
    });
    if (isJson) return;
    process.stderr.write(
      `key ${newKey.name} is valid from now on, for the daemon of ${dataDir}; it is not shown again\n`,
    );
  },
};

const revoke: Command = {
  name: 'revoke',
  operands: '<name|id>…',
  summary: 'revoke keys permanently; their open connections are closed within seconds',
  flags: SHARED_FLAGS,
  run: async (input) => {
    await withKeys(input, async (keys) => {
      for (const name of input.operands) {
        const revoked = await keys.revoke(name);
        for (const key of revoked) process.stdout.write(`${key.name} (${key.id}): revoked\n`);
      }
    });
  },
};

export const keys: Group = {
  name: 'keys',
  summary: 'API keys and their policies. Changes take effect at once in a running daemon, without a restart.',
  commands: [create, list, show, revoke],
};
