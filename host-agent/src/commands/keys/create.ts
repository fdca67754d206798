// `sandboxd keys create`.
import type { NewKey } from '../../keys/index.ts';
import type { Command } from '../command.ts';
import { handOver } from '../hand-over.ts';
import { withKeys } from '../registry.ts';
import { SHARED_FLAGS } from '../shared-config.ts';
import { checkName, checkSight, POLICY_FLAGS, parseExpiry, readName, readPolicy } from './flags.ts';
import { toJson } from './format.ts';

export const create: Command = {
  name: 'create',
  operands: '<name>',
  summary: 'make a key and print it, this once; from the first one on nobody gets in without a key',
  flags: {
    ...SHARED_FLAGS,
    tenant: {
      type: 'string',
      placeholder: 'name',
      help: 'sees only what keys of this tenant made; else everything',
    },
    'all-tenants': { type: 'boolean', help: 'has a policy, and sees what the keys of all tenants made' },
    expires: {
      type: 'string',
      placeholder: 'time',
      help: 'until when it is valid: 30d, 12h, 2027-01-31T00:00:00Z; else for ever',
    },
    ...POLICY_FLAGS,
    json: { type: 'boolean', help: 'print key and record as JSON' },
  },
  run: async (input) => {
    const tenant = input.text('tenant');
    const expires = input.text('expires');
    const policy = readPolicy(input);
    const seesAllTenants = input.isSet('all-tenants');
    checkSight(tenant, seesAllTenants, policy);
    const wanted: NewKey = {
      name: readName(input, 'key'),
      ...(tenant !== undefined && { tenant: checkName(tenant, 'tenant') }),
      ...(expires !== undefined && { expiresAtMs: parseExpiry(expires) }),
      ...(seesAllTenants && { seesAllTenants }),
      ...(policy !== undefined && { policy }),
    };
    const isJson = input.isSet('json');
    const dataDir = await withKeys(input, async (keys, dir) => {
      const { text, key } = await keys.create(wanted);
      const shown = isJson ? JSON.stringify({ key: text, ...toJson(key) }, null, 2) : text;
      await handOver(`${shown}\n`, () => keys.revoke(key.id));
      return dir;
    });
    if (isJson) return;
    process.stderr.write(
      `key ${wanted.name} is valid from now on, for the daemon of ${dataDir}; this is the only time that it is shown\n`,
    );
  },
};
