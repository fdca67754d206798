// `sandboxd profiles …`: the root filesystems that sandboxes start from.
import type { Group } from '../command.ts';
import { bake } from './bake.ts';
import { list } from './list.ts';
import { prune } from './prune.ts';
import { verify } from './verify.ts';

export const profiles: Group = {
  name: 'profiles',
  summary:
    'The root filesystems that sandboxes start from. All of this is safe while a daemon uses the data directory.',
  commands: [bake, list, verify, prune],
};
