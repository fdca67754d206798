// Reconciles registry, running VMMs and directories when a daemon starts: live sandboxes are adopted, half-created or
// half-deleted ones removed, dead ones listed with their cause, and stray VMMs and directories removed.
import { readdir } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { FoundVmm, VmmIdentity } from '../engines/engine.ts';
import { isId } from '../lib/ids.ts';
import { endProcess } from '../lib/process-record.ts';
import type { PausedRecord, SandboxRecord } from './record.ts';
import { sandboxesRoot, sandboxPaths } from './resources/files.ts';
import { adoptPaused, adoptResources, releaseResources, sweepResources } from './resources/index.ts';
import { placeNetwork } from './resources/network.ts';
import type { Directories, ResourceContext, SandboxContext } from './resources/resource.ts';
import { isOfEarlierBoot } from './resources/vmm.ts';
import { Sandbox } from './sandbox.ts';
import { removeExchange, undoExchange } from './saved/exchange.ts';
import { pausedDir, readPaused } from './saved/paused.ts';
import { storedBytesIn } from './sleep/stored.ts';

type ReconcileContext = ResourceContext & { readonly log: Logger };

type ReadyRecord = SandboxRecord & { readonly vmm: VmmIdentity };

/** Resolves with every sandbox that users know. Only VMM processes of this run directory are ended. */
export async function reconcile(resources: ResourceContext, log: Logger): Promise<Sandbox[]> {
  const context = { ...resources, log };
  const { records, directories } = context;
  const startedAt = performance.now();
  const all = new Map(records.all().map(({ id, record }) => [id, record]));
  const adopted = await Promise.all(
    [...all].map(([id, record]) => (isReady(record) ? adoptSandbox(context, id, record) : undefined)),
  );
  const sandboxes = adopted.filter((sandbox) => sandbox !== undefined);
  const { count: strays, stuck } = await endStrays(context, sandboxes);

  const known = new Set(sandboxes.map(({ id }) => id));
  const leftovers = new Set([...all.keys(), ...(await listDirectories(directories))]);
  for (const id of leftovers) {
    if (known.has(id)) continue;
    try {
      const record = all.get(id);
      // Until nothing of it is left.
      if (record?.network !== undefined) context.network.adopt(record.network);
      if (stuck.has(contextOf(context, id, record).paths.socketDir)) throw new Error('its VMM does not end');
      await removeLeftovers(context, id, record);
      await records.remove(id);
      if (record?.network !== undefined) context.network.free(record.network);
      log.info({ sandbox: id }, 'removed leftovers of a sandbox of an earlier daemon');
    } catch (err) {
      // The start continues for the other sandboxes; the next start tries again.
      log.error({ err, sandbox: id }, 'cannot remove leftovers of a sandbox of an earlier daemon');
    }
  }
  if (all.size > 0 || strays > 0) {
    const failed = sandboxes.filter(({ running }) => running?.vm.exit !== undefined).length;
    const adoptedCount = sandboxes.length - failed;
    const ms = Math.round(performance.now() - startedAt);
    log.info(
      { adopted: adoptedCount, failed, removed: leftovers.size - sandboxes.length, foreignVmms: strays, ms },
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

/** Sandboxes whose VM ended, also with the host, are listed as failed. */
async function adoptSandbox(context: ReconcileContext, id: string, found: ReadyRecord): Promise<Sandbox> {
  const stored = await settleExchange(context, id, found);
  const { isRollingBack = false } = stored;
  const paused = isRollingBack ? stored.paused : await findPaused(contextOf(context, id), stored);
  if (paused !== undefined) {
    // Its VMM, if there is one, is a stray; the next one has the directories of this daemon.
    const record = await placeNetwork(context, id, { ...stored, paused });
    const asleep = { ...contextOf(context, id), record };
    await adoptPaused(asleep);
    return new Sandbox(asleep);
  }
  // After a reboot its network is gone.
  const { paused: _, ...running } = stored;
  const { network: _network, ...withoutNetwork } = running;
  const record = isOfEarlierBoot(stored.vmm) ? withoutNetwork : running;
  const sandbox = { ...contextOf(context, id, record), record };
  await adoptResources(sandbox);
  const exit = sandbox.handles.vm?.exit;
  if (exit === undefined) return new Sandbox(sandbox);
  return new Sandbox({ ...sandbox, record: await withoutLostNetwork(context, id, { ...running, exit }) });
}

/** Of a VM that has ended. Its addresses are free when the registry has them no longer. */
async function withoutLostNetwork(
  { network, records, log }: ReconcileContext,
  id: string,
  record: ReadyRecord,
): Promise<SandboxRecord> {
  const { network: slot, ...others } = record;
  if (slot === undefined) return record;
  if (isOfEarlierBoot(record.vmm)) network.adopt(slot);
  else if (await network.exists(slot)) return record;
  try {
    await network.clear(slot);
    await records.put(id, others);
  } catch (err) {
    // Its delete tries again.
    log.warn({ err, sandbox: id }, 'cannot remove what is left of a network');
    return record;
  }
  network.free(slot);
  return others;
}

/** A rollback that was not completed is undone: the VMM of its guest, if there is one, is a stray. */
async function settleExchange(
  context: ReconcileContext,
  id: string,
  { isRollingBack, ...stored }: ReadyRecord,
): Promise<ReadyRecord> {
  const { paths, log } = contextOf(context, id);
  try {
    if (isRollingBack !== true) await removeExchange(paths);
    else {
      await undoExchange(paths);
      await context.records.put(id, stored);
    }
  } catch (err) {
    // A resume undoes it then.
    log.error({ err }, 'cannot remove what a rollback has left, or cannot undo it');
    return { ...stored, ...(isRollingBack === true && { isRollingBack }) };
  }
  return stored;
}

/** Its files decide, because they are what it goes on from; the registry follows them. */
async function findPaused(
  { paths, log }: Pick<SandboxContext, 'paths' | 'log'>,
  { paused }: ReadyRecord,
): Promise<PausedRecord | undefined> {
  if (paused?.hasMemory === false) return paused;
  const dir = pausedDir(paths.dir);
  const manifest = await readPaused(dir).catch((err) => {
    log.error({ err }, 'cannot read what a paused sandbox goes on from');
    return undefined;
  });
  if (manifest?.phase !== 'paused') return undefined;
  const storedBytes = paused?.storedBytes ?? (await storedBytesIn(dir));
  return paused ?? { atMs: Date.parse(manifest.savedAt), hasMemory: true, storedBytes };
}

async function removeLeftovers(context: ReconcileContext, id: string, record?: SandboxRecord): Promise<void> {
  // A directory without a record belongs to an otherwise deleted sandbox. A sandbox that never became ready was never
  // visible.
  const wasVisible = record === undefined || record.isReady || record.isDeleting === true;
  const teardown = {
    ...contextOf(context, id, record),
    record,
    wasVisible,
    reason: 'the sandbox no longer exists',
  };
  await releaseResources(teardown);
  await sweepResources(teardown);
}

/**
 * Ends VMMs in our run directory that belong to no sandbox: their daemon died before it recorded them. Returns their
 * number, and the socket directories of those that do not exit.
 */
async function endStrays(
  { adopters, directories, log }: ReconcileContext,
  sandboxes: readonly Sandbox[],
): Promise<{ readonly count: number; readonly stuck: ReadonlySet<string> }> {
  const owned = new Set(sandboxes.map(({ running }) => running?.vm.identity.pid));
  const strays = adopters
    .flatMap((engine) => engine.findVmms(directories.runDir))
    .filter(({ pid }) => !owned.has(pid));
  const stuck = new Set<string>();
  const endStray = async ({ socketDir, ...process }: FoundVmm): Promise<void> => {
    try {
      await endProcess(process);
    } catch (err) {
      log.error({ err, socketDir }, 'a stray VMM does not exit; the next start tries again');
      stuck.add(socketDir);
    }
  };
  await Promise.all(strays.map(endStray));
  return { count: strays.length, stuck };
}

async function listDirectories(directories: Directories): Promise<string[]> {
  const names = await Promise.all(
    [sandboxesRoot(directories), directories.runDir].map((dir) => readdir(dir).catch(() => [])),
  );
  return names.flat().filter((name) => isId('sbx', name));
}
