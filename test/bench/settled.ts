// When a daemon has done the work that its first creates left in the background.
import { join } from 'node:path';
import { templatesRoot } from '../../host-agent/src/sandboxes/saved/saved-guest.ts';
import type { Daemon } from '../support/daemon.ts';
import { untilOwnTemplate, untilSettled } from '../support/templates.ts';

/** Creates until the base profile has its own template (`kind`: with a network), and waits as `untilSettled` does. */
export async function settle(daemon: Daemon, kind: { readonly network?: object } = {}): Promise<string> {
  const key = await untilOwnTemplate(daemon, kind);
  await untilSettled(daemon);
  return join(templatesRoot(daemon.directories.dataDir), key);
}
