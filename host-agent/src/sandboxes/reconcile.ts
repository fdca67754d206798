// Brings the registry, the running VMMs and the directories of a new daemon in line: what lives is adopted, what was half
// made or half deleted is removed, what died says why, and nothing else is left.
import { readdir } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { FoundVmm, VmmIdentity } from '../engines/engine.ts';
import { isId } from '../lib/ids.ts';
import { endProcess } from '../lib/process-record.ts';
import type { SandboxRecord } from './record.ts';
import { adoptResources, releaseResources, sweepResources } from './resources/index.ts';
import { type Directories, sandboxesRoot, sandboxPaths } from './resources/paths.ts';
import type { ResourceContext, SandboxContext } from './resources/resource.ts';
import { Sandbox } from './sandbox.ts';

export type ReconcileContext = ResourceContext & { readonly log: Logger };

type ReadyRecord = SandboxRecord & { readonly vmm: VmmIdentity };

/** Resolves with every sandbox that users know of. No process is touched that is not one of our VMMs. */
export async function reconcile(context: ReconcileContext): Promise<Sandbox[]> {
  const { records, directories, log } = context;
  const startedAt = performance.now();
  const all = new Map(records.all().map(({ id, record }) => [id, record]));
  const found = await Promise.all(
    [...all].map(([id, record]) => (isReady(record) ? takeOver(context, id, record) : undefined)),
  );
  const sandboxes = found.filter((sandbox) => sandbox !== undefined);
  const { count: strangers, stuck } = await endStrays(context, sandboxes);

  const known = new Set(sandboxes.map(({ id }) => id));
  const leftovers = new Set([...all.keys(), ...(await listDirectories(directories))]);
  for (const id of leftovers) {
    if (known.has(id)) continue;
    try {
      const record = all.get(id);
      if (stuck.has(contextOf(context, id, record).paths.socketDir)) throw new Error('its VMM does not end');
      await removeLeftovers(context, id, record);
      // One that users know of ended with its host.
      const event =
        record?.isReady === true && context.events.prepare({ kind: 'deleted', sandbox: id }, record.owner);
      await (event ? records.remove(id, event.persist) : records.remove(id));
      if (event) event.publish();
      log.info({ sandbox: id }, 'removed what an earlier daemon left of a sandbox');
    } catch (err) {
      // The others are worth more than an empty directory; the next start tries again.
      log.error({ err, sandbox: id }, 'cannot remove what an earlier daemon left of a sandbox');
    }
  }
  if (all.size > 0 || strangers > 0) {
    const failed = sandboxes.filter(({ vm }) => vm.exit !== undefined).length;
    const adopted = sandboxes.length - failed;
    const ms = Math.round(performance.now() - startedAt);
    log.info(
      { adopted, failed, removed: leftovers.size - sandboxes.length, strangers, ms },
      'sandboxes adopted',
    );
  }
  return sandboxes;
}

function contextOf(
  context: ReconcileContext,
  id: string,
  record?: SandboxRecord,
): Omit<SandboxContext, 'record'> {
  const paths = { ...sandboxPaths(context.directories, id), ...record?.vmm?.paths };
  return { id, context, paths, handles: {}, log: context.log.child({ sandbox: id }) };
}

function isReady(record: SandboxRecord): record is ReadyRecord {
  return record.isReady && record.vmm !== null;
}

/** Undefined when nobody misses it: its host was started anew, which ended it in order. */
async function takeOver(
  context: ReconcileContext,
  id: string,
  record: ReadyRecord,
): Promise<Sandbox | undefined> {
  const sandbox = { ...contextOf(context, id, record), record };
  await adoptResources(sandbox);
  const exit = sandbox.handles.vm?.exit;
  if (sandbox.handles.vm === undefined) return undefined;
  return new Sandbox(exit === undefined ? sandbox : { ...sandbox, record: { ...record, exit } });
}

async function removeLeftovers(context: ReconcileContext, id: string, record?: SandboxRecord): Promise<void> {
  // A directory without a record is of one that was deleted but for it; one that was never ready nobody ever heard of.
  const wasKnown = record === undefined || record.isReady || record.isDeleting === true;
  const remains = { ...contextOf(context, id, record), record, wasKnown, why: 'nobody has it' };
  await releaseResources(remains);
  await sweepResources(remains);
}

/**
 * Ends VMMs in our run directory without a sandbox: their daemon died before it could write down that it started them. Gives how many
 * there were, and the socket directories of those that do not end.
 */
async function endStrays(
  { adopters, directories, log }: ReconcileContext,
  sandboxes: readonly Sandbox[],
): Promise<{ readonly count: number; readonly stuck: ReadonlySet<string> }> {
  const kept = new Set(sandboxes.map(({ vm }) => vm.identity.pid));
  const strays = adopters
    .flatMap((engine) => engine.findVmms(directories.runDir))
    .filter(({ pid }) => !kept.has(pid));
  const stuck = new Set<string>();
  const end = async ({ socketDir, ...process }: FoundVmm): Promise<void> => {
    try {
      await endProcess(process);
    } catch (err) {
      log.error({ err, socketDir }, 'a VMM that is nobody’s does not end; the next start tries again');
      stuck.add(socketDir);
    }
  };
  await Promise.all(strays.map(end));
  return { count: strays.length, stuck };
}

async function listDirectories(directories: Directories): Promise<string[]> {
  const names = await Promise.all(
    [sandboxesRoot(directories), directories.runDir].map((dir) => readdir(dir).catch(() => [])),
  );
  return names.flat().filter((name) => isId('sbx', name));
}
