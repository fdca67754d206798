// `sandboxd keys list` and `show`.
import type { KeyRegistry } from '../../keys/index.ts';
import { type Command, UsageError } from '../command.ts';
import { withKeys } from '../registry.ts';
import { SHARED_FLAGS } from '../shared-config.ts';
import { HEADING, toJson, toRow } from './format.ts';

export const list: Command = {
  name: 'list',
  operands: '',
  summary: 'show all keys, revoked and expired ones included',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'as one JSON array' } },
  run: async (input) => {
    const { all, who } = await withKeys(input, (keys, dir) => ({
      all: keys.list(),
      who: `there are no keys in ${dir}: ${tellWhoIsIn(keys)}`,
    }));
    if (input.isSet('json')) process.stdout.write(`${JSON.stringify(all.map(toJson), null, 2)}\n`);
    else if (all.length === 0) process.stderr.write(`${who}; \`sandboxd keys create <name>\` makes one\n`);
    else for (const line of [HEADING, ...all.map(toRow)]) process.stdout.write(`${line}\n`);
  },
};

function tellWhoIsIn({ isClosed, lostMark }: Pick<KeyRegistry, 'isClosed' | 'lostMark'>): string {
  if (lostMark !== undefined) return `nobody is let in, as there were some (${lostMark} says so)`;
  return isClosed ? 'nobody is let in (require_keys)' : 'on loopback everybody may do everything';
}

export const show: Command = {
  name: 'show',
  operands: '<name|id>',
  summary: 'show all that is known of a key, as JSON',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const [wanted, ...more] = input.names;
    if (wanted === undefined || more.length > 0) throw new UsageError('one name or id of a key is needed');
    const all = await withKeys(input, (keys) => keys.list());
    const found = all.filter(({ name, id }) => name === wanted || id === wanted);
    if (found.length === 0)
      throw new UsageError(`there is no key ${JSON.stringify(wanted)}; \`sandboxd keys list\` shows all`);
    for (const key of found) process.stdout.write(`${JSON.stringify(toJson(key), null, 2)}\n`);
  },
};
