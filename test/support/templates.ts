// The most specific template of a root file system, which is made in the background after the second copy.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readManifest } from '../../host-agent/src/sandboxes/saved/manifest.ts';
import type { Daemon } from './daemon.ts';
import { scaled } from './time-scale.ts';

/** Includes using its guest and waiting until the guest is idle, on a busy machine. */
const LIMIT_MS = 240_000;

type Options = { readonly memory_mib: number; readonly profile?: string; readonly network?: object };

/**
 * Waits until the profile has a template of its own for creates with these options, so that no other is made
 * behind them. Creates sandboxes until it is made, unless the test run has one, and deletes them again.
 */
export async function untilOwnTemplate(daemon: Daemon, options: Options): Promise<void> {
  const use = async () => daemon.api.delete((await daemon.api.create(options)).id);
  // The first create may have booted.
  for (let uses = 0; uses < 3 && !(await hasOwnTemplate(daemon, options)); uses++) await use();
  for (const endAt = performance.now() + scaled(LIMIT_MS); !(await hasOwnTemplate(daemon, options)); )
    if (performance.now() > endAt) throw new Error('timed out waiting for a template of the profile');
    else await sleep(50);
}

async function hasOwnTemplate(
  { directories, log }: Daemon,
  { profile = 'base', memory_mib, network }: Options,
): Promise<boolean> {
  const root = join(directories.dataDir, 'templates');
  // That of a guest that a create booted is replaced.
  const first = log.flatMap(({ msg, isFirst, template }) =>
    msg === 'template made' && isFirst === true ? [template] : [],
  );
  for (const key of await readdir(root).catch((): string[] => [])) {
    if (key.startsWith('.') || first.includes(key)) continue;
    const found = await readManifest(join(root, key)).catch(() => undefined);
    if (found?.options.rootfs.name !== profile || found.options.memoryMib !== memory_mib) continue;
    if ((found.options.network === undefined) === (network === undefined)) return true;
  }
  return false;
}
