// `sandboxd keys …`: API keys.
import { readFileSync } from 'node:fs';
import { checkBody, type Policy, policy } from '@sandboxd/api';
import { type Flags, type Input, UsageError } from '@sandboxd/api/command-line';
import { FleetKeys } from '../../fleet/index.ts';
import {
  concernsTenants,
  KEY_NAME,
  type KeyRegistry,
  type ListedKey,
  type NewKey,
  stateOf,
} from '../../keys/index.ts';
import { toError } from '../../lib/errors.ts';
import type { Command, Group } from '../command.ts';
import { FLEET_FLAGS, openFleetAccess } from '../fleet-access.ts';
import { printOnce } from '../print-once.ts';
import { SHARED_FLAGS, withKeys } from '../shared-config.ts';

const UNIT_S: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Each policy field is a flag: a comma-separated list, a number, or one that is given or not. */
const FIELDS: Readonly<Record<keyof Policy, 'list' | 'number' | 'switch'>> = {
  operations: 'list',
  net_allow_max: 'list',
  net_presets: 'list',
  net_require_inspect: 'switch',
  allow_secrets: 'list',
  allow_profiles: 'list',
  publish_ports: 'list',
  publish_addresses: 'list',
  max_published_ports: 'number',
  max_sandboxes: 'number',
  max_snapshots: 'number',
  max_paused: 'number',
  max_fork: 'number',
  max_timeout_s: 'number',
  max_idle_timeout_s: 'number',
  max_vcpus: 'number',
  max_memory_mib: 'number',
};
const PLACEHOLDERS = { list: 'a,b,…', number: 'n' } as const;

const toFlag = (field: string): string => field.replaceAll('_', '-');

/** The help is the description of the schema's field. */
const POLICY_FLAGS: Flags = {
  policy: { type: 'string', placeholder: 'file.json', help: 'policy as JSON; flags override its fields' },
  ...Object.fromEntries(
    Object.entries(FIELDS).map(([field, kind]) => {
      const help = policy.shape[field as keyof Policy].description ?? '';
      if (kind === 'switch') return [toFlag(field), { type: 'boolean', help }];
      return [toFlag(field), { type: 'string', placeholder: PLACEHOLDERS[kind], help }];
    }),
  ),
};

/** Undefined without restrictions. Throws UsageError with each invalid field. */
function readPolicy(input: Input): Policy | undefined {
  const file = input.text('policy');
  const fields: Record<string, unknown> = file === undefined ? {} : readJsonFile(file);
  for (const [field, kind] of Object.entries(FIELDS)) {
    if (kind === 'switch' && input.isSet(toFlag(field))) fields[field] = true;
    const text = input.text(toFlag(field));
    if (text === undefined) continue;
    fields[field] = kind === 'number' ? toNumber(text) : text.split(',').filter((word) => word !== '');
  }
  if (file === undefined && Object.keys(fields).length === 0) return undefined;
  const checked = checkBody(policy, fields);
  if (!checked.isValid) throw new UsageError(`the policy makes no sense: ${checked.problem}`);
  return checked.value;
}

/**
 * A policy limits operations, not visibility. The flags must state the visibility, so that a policy is not mistaken for
 * a tenant. Throws UsageError.
 */
export function checkVisibility(
  tenant: string | undefined,
  seesAllTenants: boolean,
  policy: Policy | undefined,
): void {
  if (tenant !== undefined && seesAllTenants)
    throw new UsageError('--tenant and --all-tenants are two answers to one question; give one');
  if (policy === undefined || tenant !== undefined || seesAllTenants || !concernsTenants(policy)) return;
  throw new UsageError(
    'a policy does not bound whose sandboxes a key sees; give --tenant <name> for those that keys of that tenant made, or --all-tenants for everybody’s',
  );
}

/** `what` names the resource. Throws UsageError. */
export function checkName(name: string, what: string): string {
  if (KEY_NAME.test(name)) return name;
  throw new UsageError(
    `${what} ${JSON.stringify(name)} must be lower-case letters, digits, dots, dashes and underscores, 63 at most`,
  );
}

/** `30d`, `12h` or a time such as 2027-01-31T00:00:00Z → epoch milliseconds. Throws UsageError. */
function parseExpiry(text: string): number {
  const nowMs = Date.now();
  const [, digits, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const isTime = /^\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:\d{2}))?$/.test(text);
  const atMs =
    digits === undefined
      ? isTime
        ? Date.parse(text)
        : Number.NaN
      : nowMs + Number(digits) * (UNIT_S[unit] ?? 0) * 1000;
  if (atMs > nowMs) return atMs;
  const problem = Number.isNaN(atMs) ? 'is not a time' : 'is over already';
  throw new UsageError(
    `--expires ${JSON.stringify(text)} ${problem}; write 30d, 12h, 90m or 2027-01-31T00:00:00Z`,
  );
}

export function toNumber(text: string): unknown {
  return /^\d{1,15}$/.test(text) ? Number(text) : text;
}

function readJsonFile(path: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch (error) {
    throw new UsageError(`cannot read the policy: ${toError(error).message}`);
  }
  throw new UsageError(`the policy in ${path} is not a JSON object`);
}

/** Where a command finds the keys: the registry of this host's daemon, or the cluster of a fleet. */
const WHERE_FLAGS: Flags = { ...SHARED_FLAGS, ...FLEET_FLAGS };

type Keys = {
  readonly store: KeyRegistry | FleetKeys;
  /** Who accepts them. */
  readonly of: string;
  /** What to say when there are none. */
  readonly none: string;
};

async function useKeys<T>(input: Input, use: (keys: Keys) => Promise<T>): Promise<T> {
  const isSet = (flag: string): boolean => input.text(flag) !== undefined;
  if (!Object.keys(FLEET_FLAGS).some(isSet))
    return await withKeys(input, (store, dir) => {
      const none = `there are no keys in ${dir}: ${describeAccess(store)}`;
      return use({ store, of: `the daemon of ${dir}`, none });
    });
  const local = Object.keys(SHARED_FLAGS).find(isSet);
  if (local !== undefined)
    throw new UsageError(`--${local} names a host, and --kubeconfig a fleet; give one of them`);
  const access = openFleetAccess(input);
  const store = new FleetKeys(access);
  try {
    const none = 'the fleet has no keys';
    return await use({ store, of: 'all hosts of the fleet', none });
  } finally {
    if (store.unread > 0) process.stderr.write(describeUnread(store.unread, access.namespace));
    access.client.close();
  }
}

function describeUnread(count: number, namespace: string): string {
  const what = count === 1 ? '1 ConfigMap' : `${count} ConfigMaps`;
  return `warning: this secret did not make ${what} of keys in the namespace ${namespace}; if hosts have another one, give that one\n`;
}

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list all keys, including revoked and expired ones',
  flags: { ...WHERE_FLAGS, json: { type: 'boolean', help: 'print a JSON array' } },
  run: async (input) => {
    const { all, none } = await useKeys(input, async ({ store, none }) => ({
      all: await store.list(),
      none,
    }));
    if (input.isSet('json')) process.stdout.write(`${JSON.stringify(all.map(toJson), null, 2)}\n`);
    else if (all.length === 0) process.stderr.write(`${none}; \`sandboxd keys create <name>\` makes one\n`);
    else for (const line of [HEADING, ...all.map(toRow)]) process.stdout.write(`${line}\n`);
  },
};

function describeAccess({ isClosed, lostMark }: Pick<KeyRegistry, 'isClosed' | 'lostMark'>): string {
  if (lostMark !== undefined) return `no client is accepted, because keys existed before (${lostMark})`;
  return isClosed ? 'no client is accepted' : 'on loopback every client has full access';
}

const show: Command = {
  name: 'show',
  operands: '<name|id>',
  summary: 'show a key as JSON',
  flags: WHERE_FLAGS,
  run: async (input) => {
    const [nameOrId] = input.operands;
    const all = await useKeys(input, async ({ store }) => store.list());
    const found = all.filter(({ name, id }) => name === nameOrId || id === nameOrId);
    if (found.length === 0)
      throw new UsageError(`there is no key ${JSON.stringify(nameOrId)}; \`sandboxd keys list\` shows all`);
    for (const key of found) process.stdout.write(`${JSON.stringify(toJson(key), null, 2)}\n`);
  },
};

function toJson(key: ListedKey) {
  const { name, id, tenant, seesAllTenants, policy, isShared } = key;
  const { createdAtMs, expiresAtMs, revokedAtMs, lastUse } = key;
  return {
    name,
    id,
    state: stateOf(key),
    ...(isShared && { fleet: true }),
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
    ...WHERE_FLAGS,
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
    const of = await useKeys(input, async ({ store, of }) => {
      const { text, key } = await store.create(newKey, input.isSet('e2b') ? 'e2b' : 'sbk');
      const shown = isJson ? JSON.stringify({ key: text, ...toJson(key) }, null, 2) : text;
      await printOnce(`${shown}\n`, () => store.revoke(key.id));
      return of;
    });
    if (isJson) return;
    process.stderr.write(`key ${newKey.name} is valid from now on, for ${of}; it is not shown again\n`);
  },
};

const revoke: Command = {
  name: 'revoke',
  operands: '<name|id>…',
  summary: 'revoke keys permanently; their open connections are closed within seconds',
  flags: WHERE_FLAGS,
  run: async (input) => {
    await useKeys(input, async ({ store }) => {
      for (const name of input.operands) {
        const revoked = await store.revoke(name);
        for (const { name, id, isShared } of revoked) {
          const rest =
            isShared && !(store instanceof FleetKeys) ? ' on this host only: it is of the fleet' : '';
          process.stdout.write(`${name} (${id}): revoked${rest}\n`);
        }
      }
    });
  },
};

export const keys: Group = {
  name: 'keys',
  summary: 'API keys and their policies. Changes take effect at once in a running daemon, without a restart.',
  commands: [create, list, show, revoke],
};
