// Brings the registry, the running VMMs and the directories of a new daemon in line: what lives is adopted, what was half
// made or half deleted is removed, what died says why, and nothing else is left.
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import type { Logger } from 'pino';
import { EndedVm } from '../engines/ended-vm.ts';
import type { Engine, FoundVmm, VmExit, VmmIdentity } from '../engines/engine.ts';
import { Guest } from '../guest/guest.ts';
import type { Faults } from '../lib/faults.ts';
import { isId } from '../lib/ids.ts';
import { patientDeadline } from '../lib/patience.ts';
import { isRunning, readBootId, signalProcess } from '../lib/proc.ts';
import { poll } from '../lib/wait.ts';
import type { LogStore } from '../logs/index.ts';
import type { Table } from '../store/store.ts';
import { type Directories, removeSandboxDirs, sandboxesRoot, sandboxPaths } from './paths.ts';
import { pinRootfs } from './pin.ts';
import type { SandboxRecord } from './record.ts';
import { Sandbox } from './sandbox.ts';
import { explainExit } from './start.ts';

const KILL_TIMEOUT_MS = 10_000;
/** The start waits at least so long for guests to answer, and on a host whose guests may take longer, longer. */
const LEAST_HELLO_WAIT_MS = 5000;
/** Of the time after which a guest hangs: one that does must not hold up all the others for all of it. */
const HELLO_WAIT_SHARE = 1 / 3;

export type ReconcileContext = {
  /** Every engine there is: a sandbox stays with its own, whichever is chosen for new ones. */
  readonly adopters: readonly Engine[];
  readonly directories: Directories;
  readonly records: Table<SandboxRecord>;
  /** Absent when this daemon keeps no logs. */
  readonly logs?: LogStore | undefined;
  readonly faults: Faults;
  /** A guest agent that does not answer for this long hangs; 0 never. */
  readonly watchdogTimeoutMs: number;
  readonly log: Logger;
};

type ReadyRecord = SandboxRecord & { readonly vmm: VmmIdentity };

/** Resolves with every sandbox that users know of. No process is touched that is not one of our VMMs. */
export async function reconcile(context: ReconcileContext): Promise<Sandbox[]> {
  const { records, directories, log } = context;
  const startedAt = performance.now();
  const all = records.all();
  const ready = all.flatMap(({ id, record }) => (isReady(record) ? [{ id, record }] : []));
  for (const { record } of all) if (!isReady(record)) await killRecorded(context, record);
  const found = await Promise.all(ready.map(({ id, record }) => takeOver(context, id, record)));
  const sandboxes = found.filter((sandbox) => sandbox !== undefined);
  const strangers = await killStrangers(context, sandboxes);

  const known = new Set(sandboxes.map(({ id }) => id));
  const neverReady = new Set(
    all.flatMap(({ id, record }) => (record.isReady || record.isDeleting ? [] : [id])),
  );
  const leftovers = new Set([...all.map(({ id }) => id), ...(await listDirectories(directories))]);
  for (const id of leftovers) {
    if (known.has(id)) continue;
    try {
      await removeLeftovers(context, id);
      // Nobody ever heard of it.
      if (neverReady.has(id)) await context.logs?.remove(id);
      await records.remove(id);
      log.info({ sandbox: id }, 'removed what an earlier daemon left of a sandbox');
    } catch (err) {
      // The others are worth more than an empty directory; the next start tries again.
      log.error({ err, sandbox: id }, 'cannot remove what an earlier daemon left of a sandbox');
    }
  }
  if (all.length > 0 || strangers > 0) {
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

/** Also in a run directory that this daemon does not have any more. */
async function removeLeftovers({ directories, records }: ReconcileContext, id: string): Promise<void> {
  const paths = sandboxPaths(directories, id);
  const recorded = records.get(id)?.vmm?.paths;
  if (recorded !== undefined) await removeSandboxDirs({ ...paths, ...recorded });
  await removeSandboxDirs(paths);
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
  const { records, logs, faults } = context;
  const log = context.log.child({ sandbox: id });
  const paths = { ...sandboxPaths(context.directories, id), ...record.vmm.paths };
  const engine = findEngine(context, record.vmm);
  const vm =
    engine?.adopt(record.vmm, { log, onResumed: () => guest.stepClock() }) ??
    (await findDead(engine, record));
  if (vm === undefined) return undefined;
  if (vm.exit !== undefined && record.exit === undefined) {
    log.warn({ exit: vm.exit }, 'a sandbox died while no daemon ran');
    // Without it the next start finds the cause anew, as this one did.
    await records
      .put(id, { ...record, exit: vm.exit })
      .catch((err) => log.error({ err }, 'cannot record the end of a VM'));
  }
  // One of a daemon that did not do so yet.
  if (vm.exit === undefined) await pinRootfs(paths.dir, record.profile.rootfsPath);
  const guest = new Guest({
    source: vm,
    incarnation: record.incarnation,
    log,
    explainLoss: () => explainExit(vm),
  });
  const sandboxLog = await logs?.open(id);
  const parts = { id, paths, vm, guest, records, logs, sandboxLog, faults, log };
  const sandbox = new Sandbox({
    ...parts,
    record: vm.exit === undefined ? record : { ...record, exit: vm.exit },
  });
  const waitMs = Math.max(LEAST_HELLO_WAIT_MS, context.watchdogTimeoutMs * HELLO_WAIT_SHARE);
  // One that has not answered by then is adopted all the same; its connection is tried on.
  if (vm.exit === undefined && !(await guest.adopt(waitMs)))
    log.warn('a guest agent does not answer after the restart; trying on');
  return sandbox;
}

async function findDead(engine: Engine | undefined, record: ReadyRecord): Promise<EndedVm | undefined> {
  const { vmm } = record;
  if (vmm.bootId !== readBootId() || !existsSync(vmm.paths.socketDir)) return undefined;
  const reason = (await engine?.explainEnd(vmm)) ?? `this daemon has no engine ${vmm.engine}`;
  const exit: VmExit = record.exit ?? { reason, exitCode: null, signal: null };
  return new EndedVm(vmm, exit);
}

/** Also in a run directory that this daemon does not have any more. */
async function killRecorded(context: ReconcileContext, { vmm }: SandboxRecord): Promise<void> {
  if (vmm === null) return;
  await findEngine(context, vmm)?.adopt(vmm, { log: context.log })?.kill();
}

function findEngine({ adopters }: ReconcileContext, { engine }: VmmIdentity): Engine | undefined {
  return adopters.find(({ name }) => name === engine);
}

/** VMMs in our run directory without a sandbox: their daemon died before it could write down that it started them. */
async function killStrangers(context: ReconcileContext, sandboxes: readonly Sandbox[]): Promise<number> {
  const kept = new Set(sandboxes.map(({ vm }) => vm.identity.pid));
  const strangers = context.adopters
    .flatMap((engine) => engine.findVmms(context.directories.runDir))
    .filter(({ pid }) => !kept.has(pid));
  await Promise.all(strangers.map(kill));
  return strangers.length;
}

async function kill(vmm: FoundVmm): Promise<void> {
  if (!signalProcess(vmm, 'SIGKILL')) return;
  using limit = patientDeadline({
    timeoutMs: KILL_TIMEOUT_MS,
    reason: () => new Error(`process ${vmm.pid} does not end`),
  });
  await poll(async () => (isRunning(vmm) ? undefined : true), 5, limit.signal);
}

async function listDirectories(directories: Directories): Promise<string[]> {
  const names = await Promise.all(
    [sandboxesRoot(directories), directories.runDir].map((dir) => readdir(dir).catch(() => [])),
  );
  return names.flat().filter((name) => isId('sbx', name));
}
