// When a daemon has done the work that its first creates left in the background.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isChecksummed, readManifest } from '../../host-agent/src/sandboxes/saved/manifest.ts';
import { templatesRoot } from '../../host-agent/src/sandboxes/saved/saved-guest.ts';
import type { Daemon } from '../support/daemon.ts';
import { ownTemplate } from '../support/templates.ts';

const POLL_MS = 20;

/** Creates until the base profile has its own template (`kind`: with a network), and waits as `untilSettled` does. */
export async function settle(daemon: Daemon, kind: { readonly network?: unknown } = {}): Promise<string> {
  const { api, directories } = daemon;
  const create = async (): Promise<void> => api.delete((await api.create(kind)).id);
  const key = await ownTemplate(daemon, create, kind.network !== undefined);
  await untilSettled(daemon);
  return join(templatesRoot(directories.dataDir), key);
}

/** No template is being made, and the checksums of all are there: computing them would compete with a request. */
export async function untilSettled({ directories }: Daemon): Promise<void> {
  const root = templatesRoot(directories.dataDir);
  const isComplete = async (name: string): Promise<boolean> =>
    !name.startsWith('.') &&
    // Read while it is removed: evaluated again.
    (await readManifest(join(root, name)).then(isChecksummed, () => false));
  for (;;) {
    const names = await readdir(root).catch((): string[] => []);
    if ((await Promise.all(names.map(isComplete))).every(Boolean)) return;
    await sleep(POLL_MS);
  }
}
