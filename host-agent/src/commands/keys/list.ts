// `sandboxd keys list` and `show`.
import { UsageError } from '@sandboxd/api/command-line';
import type { KeyRegistry } from '../../keys/index.ts';
import type { Command } from '../command.ts';
import { SHARED_FLAGS, withKeys } from '../shared-config.ts';
import { HEADING, toJson, toRow } from './format.ts';

export const list: Command = {
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

export const show: Command = {
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
