// `sandboxd profiles …`: rootfs profiles.
import type { Group } from '../command.ts';
import { bake, prune } from './bake.ts';
import { list } from './list.ts';
import { verify } from './verify.ts';

export const profiles: Group = {
  name: 'profiles',
  summary:
    'Rootfs profiles, from which sandboxes are created. All commands are safe while a daemon uses the data directory.',
  commands: [bake, list, verify, prune],
};
