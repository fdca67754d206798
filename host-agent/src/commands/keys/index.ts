// `sandboxd keys …`: API keys.
import { UsageError } from '@sandboxd/api/command-line';
import { type KeyRegistry, type ListedKey, type NewKey, stateOf } from '../../keys/index.ts';
import type { Command, Group } from '../command.ts';
import { printOnce } from '../print-once.ts';
import { SHARED_FLAGS, withKeys } from '../shared-config.ts';
import { checkName, checkVisibility, POLICY_FLAGS, parseExpiry, readPolicy } from './flags.ts';

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list all keys, including revoked and expired ones',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'print a JSON array' } },
  run: async (input) => {
    const { all, access } = await withKeys(input, (keys, dir) => ({
      all: keys.list(),
      access: `there are no keys in ${dir}: ${describeAccess(keys)}`,
    }));
    if (input.isSet('json')) process.stdout.write(`${JSON.stringify(all.map(toJson), null, 2)}\n`);
    else if (all.length === 0) process.stderr.write(`${access}; \`sandboxd keys create <name>\` makes one\n`);
    else for (const line of [HEADING, ...all.map(toRow)]) process.stdout.write(`${line}\n`);
  },
};

function describeAccess({ isClosed, lostMark }: Pick<KeyRegistry, 'isClosed' | 'lostMark'>): string {
  if (lostMark !== undefined) return `no client is accepted, because keys existed before (${lostMark})`;
  return isClosed ? 'no client is accepted (require_keys)' : 'on loopback every client has full access';
}

const show: Command = {
  name: 'show',
  operands: '<name|id>',
  summary: 'show a key as JSON',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const [nameOrId] = input.operands;
    const all = await withKeys(input, (keys) => keys.list());
    const found = all.filter(({ name, id }) => name === nameOrId || id === nameOrId);
    if (found.length === 0)
      throw new UsageError(`there is no key ${JSON.stringify(nameOrId)}; \`sandboxd keys list\` shows all`);
    for (const key of found) process.stdout.write(`${JSON.stringify(toJson(key), null, 2)}\n`);
  },
};

function toJson(key: ListedKey) {
  const { name, id, tenant, seesAllTenants, policy, createdAtMs, expiresAtMs, revokedAtMs, lastUse } = key;
  return {
    name,
    id,
    state: stateOf(key),
    created_at: toTime(createdAtMs),
    ...(tenant !== undefined && { tenant }),
    ...(seesAllTenants && { all_tenants: true }),
    ...(policy !== undefined && { policy }),
    ...(expiresAtMs !== undefined && { expires_at: toTime(expiresAtMs) }),
    ...(revokedAtMs !== undefined && { revoked_at: toTime(revokedAtMs) }),
    ...(lastUse !== undefined && { last_use: { at: toTime(lastUse.atMs), address: lastUse.address } }),
  };
}

const COLUMNS = [20, 17, 9, 16, 25, 25];

function toRow(key: ListedKey): string {
  const { name, id, tenant = '(all)', state, expires_at, last_use, policy } = toJson(key);
  const what = policy === undefined ? 'everything' : JSON.stringify(policy);
  return columns([name, id, state, tenant, expires_at ?? 'never', last_use?.at ?? 'never used', what]);
}

const HEADING = columns(['NAME', 'ID', 'STATE', 'TENANT', 'EXPIRES', 'LAST USE', 'MAY DO']);

function columns(cells: readonly string[]): string {
  return cells
    .map((cell, at) => cell.padEnd(COLUMNS[at] ?? 0))
    .join(' ')
    .trimEnd();
}

function toTime(ms: number): string {
  return new Date(ms).toISOString();
}

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
    e2b: { type: 'boolean', help: 'a key in the form that the SDKs of E2B take; the rights are the same' },
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
      const { text, key } = await keys.create(newKey, input.isSet('e2b') ? 'e2b' : 'sbk');
      const shown = isJson ? JSON.stringify({ key: text, ...toJson(key) }, null, 2) : text;
      await printOnce(`${shown}\n`, () => keys.revoke(key.id));
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
