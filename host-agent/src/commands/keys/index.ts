// `sandboxd keys …`: API keys.
import type { Group } from '../command.ts';
import { create } from './create.ts';
import { list, show } from './list.ts';
import { revoke } from './revoke.ts';

export const keys: Group = {
  name: 'keys',
  summary: 'API keys and their policies. Changes take effect at once in a running daemon, without a restart.',
  commands: [create, list, show, revoke],
};
