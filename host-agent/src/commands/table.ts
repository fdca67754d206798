// The table of commands: help, completions and manual pages are made of it.
import { audit } from './audit/index.ts';
import type { Command, Group } from './command.ts';
import { doctor } from './doctor/index.ts';
import { images } from './images/index.ts';
import { keys } from './keys/index.ts';
import { profiles } from './profiles/index.ts';
import { snapshots } from './snapshots/index.ts';
import { tenants } from './tenants/index.ts';
import { webhooks } from './webhooks/index.ts';

/** Every group of commands; the daemon itself is `serve`. */
export const GROUPS: readonly Group[] = [profiles, images, snapshots, keys, tenants, webhooks, audit];

/** Commands by themselves. */
export const COMMANDS: readonly Command[] = [doctor];
