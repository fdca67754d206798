// `sandboxd tenants …`: quotas of tenants.
import { checkBody } from '@sandboxd/api';
import { type Flags, UsageError } from '@sandboxd/api/command-line';
import { QUOTA_KEYS, quota } from '../../keys/index.ts';
import type { Command, Group } from '../command.ts';
import { checkName, toNumber } from '../keys/index.ts';
import { SHARED_FLAGS, withKeys } from '../shared-config.ts';

const QUOTA_FLAGS: Flags = Object.fromEntries(
  QUOTA_KEYS.map((key) => {
    const help = quota.shape[key].description ?? '';
    const isSwitch = key === 'net_require_inspect';
    return [
      key.replaceAll('_', '-'),
      isSwitch ? { type: 'boolean', help } : { type: 'string', placeholder: 'n', help },
    ];
  }),
);

const set: Command = {
  name: 'set',
  operands: '<tenant>',
  summary: 'set the whole quota of a tenant; an omitted field is unlimited',
  flags: { ...SHARED_FLAGS, ...QUOTA_FLAGS },
  run: async (input) => {
    const tenant = checkName(input.operands[0] ?? '', 'tenant');
    const fields = QUOTA_KEYS.flatMap((key) => {
      const flag = key.replaceAll('_', '-');
      if (key === 'net_require_inspect') return input.isSet(flag) ? [[key, true]] : [];
      const text = input.text(flag);
      return text === undefined ? [] : [[key, toNumber(text)]];
    });
    const checked = checkBody(quota, Object.fromEntries(fields));
    if (!checked.isValid) throw new UsageError(`the quota makes no sense: ${checked.problem}`);
    await withKeys(input, (keys) => keys.setQuota(tenant, checked.value));
    process.stdout.write(`${tenant}: ${JSON.stringify(checked.value)}\n`);
  },
};

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list the tenants with a quota or a key, as JSON',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const { quotas, keys } = await withKeys(input, (registry) => ({
      quotas: new Map(registry.quotas().map(({ tenant, quota: of }) => [tenant, of])),
      keys: registry.list().filter(({ revokedAtMs }) => revokedAtMs === undefined),
    }));
    const names = new Set([...quotas.keys(), ...keys.flatMap(({ tenant }) => tenant ?? [])]);
    const rows = [...names].sort().map((tenant) => ({
      tenant,
      quota: quotas.get(tenant) ?? {},
      keys: keys.filter((key) => key.tenant === tenant).map(({ name }) => name),
    }));
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
  },
};

const remove: Command = {
  name: 'remove',
  operands: '<tenant>',
  summary: 'remove the quota of a tenant; its keys and resources stay',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const tenant = checkName(input.operands[0] ?? '', 'tenant');
    await withKeys(input, (keys) => keys.removeQuota(tenant));
    process.stdout.write(`${tenant}: no quota\n`);
  },
};

export const tenants: Group = {
  name: 'tenants',
  summary:
    'Quotas for all keys of a tenant together (`sandboxd keys create --tenant`). Changes take effect at once.',
  commands: [set, list, remove],
};
