// A root file system's own template, which is made in the background after the second copy.
import type { Daemon } from './daemon.ts';
import { until } from './until.ts';

/** Includes using its guest and waiting until the guest is idle. */
const LIMIT_MS = 120_000;

/**
 * Name of the base profile's own template, once it exists. `create` makes a sandbox of its size (with a network, for a
 * template with an interface) and deletes it again.
 */
export async function ownTemplate(
  daemon: Daemon,
  create: () => Promise<void>,
  hasNetwork = false,
): Promise<string> {
  const find = () =>
    daemon.log.find(
      (line) =>
        line.msg === 'template made' &&
        line.rootfs === 'base' &&
        line.hasNetwork === hasNetwork &&
        line.isFirst !== true,
    )?.template;
  // The first create may have booted.
  for (let uses = 0; uses < 3 && find() === undefined; uses++) await create();
  await until(() => find() !== undefined, 'a template of the base profile', LIMIT_MS);
  return String(find());
}
