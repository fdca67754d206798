// `sandboxd keys …`: API keys.
import type { Command, Group } from '../command.ts';
import { SHARED_FLAGS, withKeys } from '../shared-config.ts';
import { create } from './create.ts';
import { list, show } from './list.ts';

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
