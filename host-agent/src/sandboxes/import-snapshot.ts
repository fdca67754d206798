// Imports a snapshot of another host: checks whether it can run here before anything is written, then restores its
// files or cold-boots its disk.
import { mkdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import {
  hostPattern,
  INTERNET_PRESET,
  labels as labelsSchema,
  MAX_ALLOWED_HOSTS,
  MAX_ALLOWLIST_CHARS,
  MAX_SECONDS,
  networkRule,
  type SandboxLimits,
  sandboxEnv,
} from '@sandboxd/api';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Engines } from '../engines/choice.ts';
import type { RootfsFinder } from '../images/index.ts';
import type { Owner } from '../keys/index.ts';
import { enqueue } from '../lib/concurrency-limit.ts';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { NetworkPolicy } from '../network/index.ts';
import { assertFew, toUsableRules } from '../network/resolve-policy.ts';
import type { StoredBinding } from '../secrets/index.ts';
import { type Admission, asNoSpace, type Need } from './admission.ts';
import { startSandbox } from './create.ts';
import type { Inherited } from './metadata.ts';
import type { GuestSystem, ResourceContext } from './resources/resource.ts';
import { saveAndDestroy } from './save-sandbox.ts';
import { type ArchiveManifest, badArchive } from './saved/archive/format.ts';
import { ArchiveReader, type ByteSource } from './saved/archive/read-archive.ts';
import type { SavedManifest } from './saved/manifest.ts';
import { type PlaceInput, placeImported } from './saved/place-imported.ts';
import { findDifferences, type SavedGuest } from './saved/saved-guest.ts';
import { readReferences } from './secrets.ts';
import type { About } from './snapshot-about.ts';
import type { SnapshotFor, Snapshots } from './snapshots.ts';
import type { ImportOptions, SnapshotInfo } from './types.ts';

/** Of an image. */
const DIGEST = /^sha256:[\da-f]{64}$/;

export type ImportContext = {
  readonly compatibility: Readonly<Record<string, string>>;
  readonly limits: SandboxLimits;
  readonly roots: Pick<RootfsFinder, 'find'>;
  /** The agent image, from which guests of generic templates run. */
  readonly system: Pick<GuestSystem, 'agentRootfs'>;
  /** A host of the fleet wrote it, so that its image may come from the bucket. */
  readonly isStored?: true;
};

export type ImportDeps = Omit<ImportContext, 'compatibility'> & {
  readonly engines: Pick<Engines, 'chosen'>;
  readonly admission: Pick<Admission, 'reserve'>;
  readonly snapshots: Pick<Snapshots, 'import' | 'isNameFree'>;
  /** Cold-boots the disk and saves that guest. */
  readonly boot: (input: ImportInput) => Promise<SavedGuest>;
};

/** AppError as in `Sandboxes`, or the signal's reason; everything is undone then. */
export async function receiveSnapshot(
  { engines, limits, roots, system, admission, snapshots, boot }: ImportDeps,
  read: ByteSource,
  { isDiskOnly }: ImportOptions,
  signal: AbortSignal,
  by?: SnapshotFor,
): Promise<SnapshotInfo> {
  let readFailure: { readonly error: unknown } | undefined;
  const source: ByteSource = () =>
    read().catch((error: unknown) => {
      readFailure = { error };
      throw error;
    });
  try {
    await using archive = new ArchiveReader(source);
    const manifest = await archive.readManifest();
    const engine = await engines.chosen(signal);
    const context = { compatibility: engine.compatibility(), limits, roots, system };
    const { secrets, ...options } = await resolveImport(manifest, context, isDiskOnly, signal);
    using _reservation = await admission.reserve(toNeed(manifest, isDiskOnly));
    const fill = (dir: string) => {
      const input = { dir, archive, manifest, options, signal };
      return isDiskOnly ? boot(input) : importGuest(input);
    };
    const about = toFreeAbout(manifest.options.about, snapshots, by?.owner);
    const maker = { owner: by?.owner, ...by, about, secrets };
    return await snapshots.import(manifest.sourceId, fill, signal, maker);
  } catch (error) {
    signal.throwIfAborted();
    // The reader of the request knows best why the bytes ended.
    if (readFailure !== undefined) throw readFailure.error;
    if (isAppError(error)) throw error;
    const failure = toError(error);
    throw (
      asNoSpace(error, 'import the snapshot', 'import') ??
      new AppError('internal', `cannot import the snapshot: ${failure.message}`, { cause: error })
    );
  }
}

/** Until a cold-booted guest is saved, its disk exists twice, and its memory in addition. */
function toNeed({ parts: { memory, state, disk }, options }: ArchiveManifest, isDiskOnly: boolean): Need {
  const { memoryMib } = options;
  if (isDiskOnly)
    return {
      memoryMib: [memoryMib],
      areCopies: false,
      diskBytes: 2 * disk.contentBytes + memoryMib * 2 ** 20,
    };
  return {
    memoryMib: [],
    areCopies: false,
    diskBytes: memory.contentBytes + state.contentBytes + disk.contentBytes,
  };
}

/**
 * Returns its options with this host's root file system. AppError conflict with the difference, invalid_argument for
 * values that no sandbox can have.
 */
export async function resolveImport(
  { compatibility, options }: ArchiveManifest,
  context: ImportContext,
  isDiskOnly: boolean,
  signal: AbortSignal,
): Promise<SavedManifest['options'] & { readonly secrets: readonly StoredBinding[] }> {
  const { compatibility: own, limits } = context;
  const difference = isDiskOnly ? undefined : findDifferences(compatibility, own);
  if (difference !== undefined)
    throw new AppError(
      'conflict',
      `the snapshot does not fit the engine of this host: ${difference}; disk_only boots it from its disk alone`,
    );
  const { vcpus, memoryMib, diskBytes, timeoutS, idle, network, rootfs, inherited } = options;
  for (const [name, value, max] of [
    ['vcpus', vcpus, limits.vcpus],
    ['memory_mib', memoryMib, limits.memoryMib],
    ['disk_bytes', diskBytes, limits.diskBytes],
    ['timeout_s', timeoutS, MAX_SECONDS],
    ['idle_timeout_s', idle?.timeoutS ?? 0, MAX_SECONDS],
  ] as const)
    if (value < 0 || value > max) throw badArchive(`${name} is ${value}, and at most ${max} here`);
  if (inherited !== undefined && !isValidInherited(inherited))
    throw badArchive('its labels or its environment are not valid');
  const secrets = readReferences(inherited?.secrets ?? []);
  if (secrets === undefined) throw badArchive('its secrets are not valid');
  if (rootfs.kind === 'agent') throw badArchive('it was saved before it had a root filesystem');
  const { about: _, ...saved } = options;
  return {
    ...saved,
    ...(network !== undefined && { network: toImportedNetwork(network) }),
    rootfs: await findRoot(rootfs, context, isDiskOnly, signal),
    secrets,
  };
}

/** The same for a snapshot of the store, which a host with its key wrote. */
export async function resolveStored(
  manifest: ArchiveManifest,
  { engines, ...context }: Omit<ImportContext, 'compatibility'> & Pick<ImportDeps, 'engines'>,
  signal: AbortSignal,
): ReturnType<typeof resolveImport> {
  const compatibility = (await engines.chosen(signal)).compatibility();
  return await resolveImport(manifest, { ...context, compatibility, isStored: true }, false, signal);
}

/**
 * Presets of another host become rules: here, their names may mean something else, and a key may use more by such a
 * name than otherwise. The built-in one has the same meaning everywhere.
 */
function toImportedNetwork({ allowlist, rules = [], presets = [], log }: NetworkPolicy): NetworkPolicy {
  const chars = allowlist.reduce((sum, { length }) => sum + length, 0);
  if (allowlist.length > MAX_ALLOWED_HOSTS || chars > MAX_ALLOWLIST_CHARS)
    throw badArchive('its allowlist is too long');
  for (const pattern of allowlist)
    if (hostPattern.safeParse(pattern).data !== pattern)
      throw badArchive('its allowlist has an entry that is not a host name');
  const isInternet = presets.some(({ name }) => name === INTERNET_PRESET);
  const all = [...rules, ...presets.flatMap((each) => (each.name === INTERNET_PRESET ? [] : each.rules))];
  try {
    const checked = toUsableRules(all.map((each) => networkRule.parse(each)));
    const network = {
      allowlist,
      ...(checked.length > 0 && { rules: checked }),
      ...(isInternet && { presets: [{ name: INTERNET_PRESET, rules: [] }] }),
      ...(log !== undefined && { log }),
    };
    assertFew(network);
    return network;
  } catch {
    throw badArchive('its network has rules that are not valid');
  }
}

/** A name that another snapshot has here is left out. */
function toFreeAbout(
  { name, ...about }: About = {},
  snapshots: Pick<Snapshots, 'isNameFree'>,
  owner: Owner | undefined,
): About {
  return { ...about, ...(name !== undefined && snapshots.isNameFree(owner, name) && { name }) };
}

/** Forks inherit them, so they must be what a create could have set. */
function isValidInherited({ labels, env }: Inherited): boolean {
  const variables = Object.fromEntries(env);
  return (
    labelsSchema.safeParse(labels).success &&
    Object.keys(variables).length === env.length &&
    ENV_SCHEMA.safeParse(variables).success
  );
}

const ENV_SCHEMA = sandboxEnv('');

async function findRoot(
  { kind, name, digest, imageDigest = '', agent }: ArchiveManifest['options']['rootfs'],
  { roots, system, isStored }: Pick<ImportContext, 'roots' | 'system' | 'isStored'>,
  isDiskOnly: boolean,
  signal: AbortSignal,
): Promise<SavedManifest['options']['rootfs']> {
  const which = `${kind} ${JSON.stringify(name)}`;
  const what = `the snapshot needs the root filesystem ${digest} of ${which}`;
  if (kind === 'agent') throw badArchive('it was saved before it had a root filesystem');
  const find = (wanted: string, pull: 'never' | 'missing') =>
    roots.find({ kind, name: wanted }, pull, { signal }).catch((cause: Error) => cause);
  const named = await find(name, 'never');
  const hasIt = !(named instanceof Error) && named.rootfs.digest === digest;
  // Hosts that share images have it from the bucket. Only a whole digest: nothing is asked of a registry.
  const shared =
    !hasIt && isStored === true && DIGEST.test(imageDigest) ? await find(imageDigest, 'missing') : named;
  signal.throwIfAborted();
  const cause = shared instanceof Error ? named : shared;
  if (cause instanceof Error)
    throw new AppError('conflict', `${what}, which this host does not have: ${cause.message}`, { cause });
  const found = { ...cause, rootfs: { ...cause.rootfs, name } };
  const { agentPath, ...rootfs } = found.rootfs;
  if (rootfs.digest !== digest)
    throw new AppError('conflict', `${what}; this host has ${rootfs.digest || 'none'} by that name`);
  // A cold boot uses this host's agent.
  if (isDiskOnly) return found.rootfs;
  const own = [agentPath, (await system.agentRootfs?.())?.agentPath];
  const path = agent === undefined ? undefined : own.find((each) => each && basename(each) === agent);
  // A profile's root file system may contain the agent; an image never does.
  if (agent !== undefined ? path === undefined : kind === 'image')
    throw new AppError('conflict', `${what} with the agent ${agent}; this host has another`);
  return { ...rootfs, ...(path !== undefined && { agentPath: path }) };
}

export type ImportInput = Omit<PlaceInput, 'write'> & { readonly archive: ArchiveReader };

function importGuest({ archive, ...input }: ImportInput): Promise<SavedGuest> {
  return placeImported({ ...input, write: () => archive.readParts(input.dir, input.manifest) });
}

export type BootShared = { readonly startQueue: PQueue; readonly log: Logger };

/**
 * The service is not started, and the original kernel arguments are dropped. AppError as of the archive and of a
 * start.
 */
export async function bootImported(
  context: ResourceContext,
  { startQueue, log }: BootShared,
  { dir, archive, manifest, options: imported, signal }: ImportInput,
): Promise<SavedGuest> {
  const options = { ...imported, bootArgs: '' };
  // Who imports it may not be allowed what the archive names: that is checked for its forks.
  const closed = { ...options, ...(options.network !== undefined && { network: { allowlist: [] } }) };
  const from = join(dir, 'imported');
  await mkdir(from, { recursive: true, mode: 0o700 });
  await archive.readParts(from, manifest, ['disk']);
  const id = newId('sbx');
  const memoryPath = join(dir, 'memory');
  const layerPath = join(from, manifest.parts.disk.name);
  // No client sees this guest, so it has no durable log.
  const hidden = { ...context, logs: undefined };
  const boot = async () => {
    await rm(memoryPath, { force: true });
    const origin = { kind: 'boot', memoryPath, layerPath } as const;
    return startSandbox(hidden, { id, options: closed, origin, log: log.child({ sandbox: id }), signal });
  };
  const { engines } = context;
  const start = () => enqueue(startQueue, () => engines.bootOrReplaceEngine(boot, signal), signal);
  const sandbox = await engines.withReplacement(start);
  await using undo = new AsyncDisposableStack();
  undo.defer(() => sandbox.remove());
  await rm(from, { recursive: true });
  const { saved } = await saveAndDestroy(context, sandbox, { dir, options, signal });
  return saved;
}
