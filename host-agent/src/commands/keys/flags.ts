// Parses the flags of `sandboxd keys create`.
import { readFileSync } from 'node:fs';
import { checkBody, type Policy, policy } from '@sandboxd/api';
import { type Flags, type Input, UsageError } from '@sandboxd/api/command-line';
import { concernsTenants } from '../../keys/index.ts';
import { toError } from '../../lib/errors.ts';

const NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/;
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
export const POLICY_FLAGS: Flags = {
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
export function readPolicy(input: Input): Policy | undefined {
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
  if (NAME.test(name)) return name;
  throw new UsageError(
    `${what} ${JSON.stringify(name)} must be lower-case letters, digits, dots, dashes and underscores, 63 at most`,
  );
}

/** `30d`, `12h` or a time such as 2027-01-31T00:00:00Z → epoch milliseconds. Throws UsageError. */
export function parseExpiry(text: string): number {
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
