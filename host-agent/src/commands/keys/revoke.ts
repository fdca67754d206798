// `sandboxd keys revoke`.
import { type Command, UsageError } from '../command.ts';
import { withKeys } from '../registry.ts';
import { SHARED_FLAGS } from '../shared-config.ts';

export const revoke: Command = {
  name: 'revoke',
  operands: '<name|id>…',
  summary: 'revoke keys permanently; their open connections are closed within seconds',
  flags: SHARED_FLAGS,
  run: async (input) => {
    if (input.names.length === 0) throw new UsageError('the name or id of a key is needed');
    await withKeys(input, async (keys) => {
      for (const name of input.names) {
        const revoked = await keys.revoke(name);
        for (const key of revoked) process.stdout.write(`${key.name} (${key.id}): revoked\n`);
      }
    });
  },
};
