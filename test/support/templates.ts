// The most specific template of a root file system, which is made in the background after the second copy.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isChecksummed, readManifest } from '../../host-agent/src/sandboxes/saved/manifest.ts';
import type { Daemon } from './daemon.ts';
import { scaled } from './time-scale.ts';

/** Includes using its guest and waiting until the guest is idle, on a busy machine. */
const LIMIT_MS = 240_000;

type Options = { readonly memory_mib?: number; readonly profile?: string; readonly network?: object };

/**
 * Waits until the profile has a template of its own for creates with these options, so that no other is made
 * behind them. Creates sandboxes until it is made, unless the test run has one, and deletes them again. Returns its key.
 */
export async function untilOwnTemplate(daemon: Daemon, options: Options = {}): Promise<string> {
  const use = async () => daemon.api.delete((await daemon.api.create(options)).id);
  // The first create may have booted.
  for (let uses = 0; uses < 3 && (await findOwnTemplate(daemon, options)) === undefined; uses++) await use();
  return await patiently(() => findOwnTemplate(daemon, options), 'a template of the profile');
}

/** No template is being made, and the checksums of all are there: computing them would compete with a request. */
export async function untilSettled({ directories }: Daemon): Promise<void> {
  const root = join(directories.dataDir, 'templates');
  const isComplete = async (name: string): Promise<boolean> =>
    !name.startsWith('.') &&
    // Read while it is removed: evaluated again.
    (await readManifest(join(root, name)).then(isChecksummed, () => false));
  const areComplete = async () => {
    const names = await readdir(root).catch((): string[] => []);
    return (await Promise.all(names.map(isComplete))).every(Boolean) || undefined;
  };
  await patiently(areComplete, 'the checksums of templates');
}

async function patiently<T>(find: () => Promise<T | undefined>, what: string): Promise<T> {
  for (const endAt = performance.now() + scaled(LIMIT_MS); ; await sleep(20)) {
    const found = await find();
    if (found !== undefined) return found;
    if (performance.now() > endAt) throw new Error(`timed out waiting for ${what}`);
  }
}

async function findOwnTemplate(
  { directories, log }: Daemon,
  { profile = 'base', memory_mib = 512, network }: Options,
): Promise<string | undefined> {
  const root = join(directories.dataDir, 'templates');
  // That of a guest that a create booted is replaced.
  const first = log.flatMap(({ msg, isFirst, template }) =>
    msg === 'template made' && isFirst === true ? [template] : [],
  );
  for (const key of await readdir(root).catch((): string[] => [])) {
    if (key.startsWith('.') || first.includes(key)) continue;
    const found = await readManifest(join(root, key)).catch(() => undefined);
    if (found?.options.rootfs.name !== profile || found.options.memoryMib !== memory_mib) continue;
    if ((found.options.network === undefined) === (network === undefined)) return key;
  }
  return undefined;
}
