// The table of commands, source of help, completions and manual pages.
import { audit } from './audit/index.ts';
import { bench } from './bench/index.ts';
import type { Command, Group } from './command.ts';
import { doctor } from './doctor/index.ts';
import { drain } from './drain/index.ts';
import { gateway } from './gateway/index.ts';
import { images } from './images/index.ts';
import { keys } from './keys/index.ts';
import { profiles } from './profiles/index.ts';
import { secrets } from './secrets/index.ts';
import { snapshots } from './snapshots/index.ts';
import { store } from './store/index.ts';
import { templates } from './templates/index.ts';
import { tenants } from './tenants/index.ts';
import { upgrade } from './upgrade/index.ts';
import { webhooks } from './webhooks/index.ts';

/** All command groups; the daemon itself is `serve`. */
export const GROUPS: readonly Group[] = [
  profiles,
  images,
  snapshots,
  store,
  templates,
  keys,
  tenants,
  secrets,
  webhooks,
  audit,
];

/** Commands without a group. */
export const COMMANDS: readonly Command[] = [doctor, bench, drain, gateway, upgrade];
