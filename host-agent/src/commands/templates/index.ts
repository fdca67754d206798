// `sandboxd templates …`: names of templates for clients of E2B, of all tenants.
import { UsageError } from '@sandboxd/api/command-line';
import { OPERATOR_NAME, OperatorNames } from '../../e2b/index.ts';
import type { Command, Group } from '../command.ts';
import { SHARED_FLAGS, withStore } from '../shared-config.ts';

const MAX_NAMES = 1000;

const set: Command = {
  name: 'set',
  operands: '<name=profile|image|snapshot>…',
  summary: 'name profiles, container images or snapshots (by their ids), for clients of all tenants',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const wanted = input.operands.map(parseSetting);
    await withStore(input, async (store) => {
      const names = new OperatorNames(store);
      const all = new Set([...names.list(), ...wanted].map(({ name }) => name));
      if (all.size > MAX_NAMES) throw new UsageError(`there can be ${MAX_NAMES} names; remove some`);
      for (const { name, target } of wanted) {
        await names.set(name, target);
        process.stdout.write(`${name}: ${target}\n`);
      }
    });
  },
};

/** Throws UsageError. */
function parseSetting(text: string): { readonly name: string; readonly target: string } {
  const [name = '', target = ''] = text.split(/=(.*)/s, 2);
  for (const part of [name, target])
    if (!OPERATOR_NAME.test(part))
      throw new UsageError(
        `${JSON.stringify(text)} must be name=profile, name=image or name=snapshot, such as python=python-3.11`,
      );
  return { name, target };
}

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list the names that were set; what clients have built is not among them',
  flags: { ...SHARED_FLAGS, json: { type: 'boolean', help: 'print a JSON array' } },
  run: async (input) => {
    const all = await withStore(input, (store) => new OperatorNames(store).list());
    if (input.isSet('json')) {
      const shown = all.map(({ name, target, setAtMs }) => ({
        name,
        target,
        set_at: new Date(setAtMs).toISOString(),
      }));
      process.stdout.write(`${JSON.stringify(shown, null, 2)}\n`);
    } else for (const { name, target } of all) process.stdout.write(`${name}: ${target}\n`);
  },
};

const remove: Command = {
  name: 'remove',
  operands: '<name>…',
  summary: 'remove names; what they lead to stays',
  flags: SHARED_FLAGS,
  run: async (input) => {
    await withStore(input, async (store) => {
      const names = new OperatorNames(store);
      for (const name of input.operands) {
        if (!(await names.remove(name)))
          throw new UsageError(
            `there is no name ${JSON.stringify(name)}; \`sandboxd templates list\` shows all`,
          );
        process.stdout.write(`${name}: removed\n`);
      }
    });
  },
};

export const templates: Group = {
  name: 'templates',
  summary: 'Names of templates for clients of E2B. Changes take effect at once in a running daemon.',
  commands: [set, list, remove],
};
