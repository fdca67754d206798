// `sandboxd keys …`: who may call the daemon.
import type { Group } from '../command.ts';
import { create } from './create.ts';
import { list, show } from './list.ts';
import { revoke } from './revoke.ts';

export const keys: Group = {
  name: 'keys',
  summary:
    'Who may call the daemon, and what for. It may run meanwhile: all takes effect at once, without a restart.',
  commands: [create, list, show, revoke],
};
