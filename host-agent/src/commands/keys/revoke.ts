// `sandboxd keys revoke`.
import type { Command } from '../command.ts';
import { SHARED_FLAGS, withKeys } from '../shared-config.ts';

export const revoke: Command = {
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
