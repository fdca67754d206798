// The template that a root filesystem has of its own: some engines make it behind the second create.
import type { Daemon } from './daemon.ts';
import { until } from './until.ts';

/** Its guest is used, and then waited for until it has nothing left to do. */
const LIMIT_MS = 120_000;

/**
 * Name of the one of the base profile, once it is there; `create` makes a sandbox of its size, with a network where it is the
 * one with an interface, and deletes it again.
 */
export async function ownTemplate(
  daemon: Daemon,
  create: () => Promise<void>,
  hasNetwork = false,
): Promise<string> {
  const find = () =>
    daemon.log.find(
      (line) => line.msg === 'template made' && line.rootfs === 'base' && line.hasNetwork === hasNetwork,
    )?.template;
  for (let uses = 0; uses < 2 && find() === undefined; uses++) await create();
  await until(() => find() !== undefined, 'a template of the base profile', LIMIT_MS);
  return String(find());
}
