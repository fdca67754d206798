// A paused sandbox in the snapshot store: what another host needs to go on with it under its id. The values of its
// secrets and the key of its certificate authority stay behind.
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { ServiceSpec } from '@sandboxd/api';
import { z } from 'zod';
import { AppError, toError } from '../../lib/errors.ts';
import { allocatedBytes } from '../../lib/extents.ts';
import type { Faults } from '../../lib/faults.ts';
import type { StoredBinding } from '../../secrets/index.ts';
import type { StoreManifest } from '../../snapshot-store/index.ts';
import { metadataOf } from '../metadata.ts';
import { type SandboxRecord, toSavedOptions } from '../record.ts';
import type { Sandbox } from '../sandbox.ts';
import { ARCHIVE_FORMAT, archiveManifestSchema, PARTS, type Part } from '../saved/archive/format.ts';
import { checkSizes } from '../saved/archive/read-archive.ts';
import { openPaused, pausedDir } from '../saved/paused.ts';
import { scopeOfOwner } from '../secrets.ts';
import type { ResolvedImport } from '../stored/shared.ts';
import type { ResolvedSandboxOptions } from '../types.ts';

const MAX_REASON_CHARS = 300;
const FORMAT = 1;

const owner = z.strictObject({ key: z.string(), tenant: z.string().optional() });
/** A create of this host has checked them; the seal of the document is of a host with the key. */
const service = z.custom<ServiceSpec>((value) => typeof value === 'object' && value !== null);

/** Of the record, as it is; the rest is in the archive, or is made again. */
const recordSchema = z.strictObject({
  owner: owner.optional(),
  name: z.string().optional(),
  serviceHash: z.string().optional(),
  expiresAtMs: z.number().optional(),
  /** Which stored secret a binding uses, by the binding's id. */
  uses: z.record(z.string(), z.string()),
  sourceSnapshotId: z.string().optional(),
  sourceSandboxId: z.string().optional(),
  parentSnapshotId: z.string().optional(),
  ports: z.custom<SandboxRecord['ports']>(Array.isArray).optional(),
  publish: z.custom<ResolvedSandboxOptions['publish']>(Array.isArray).optional(),
  service: service.optional(),
  readyPort: z.int().optional(),
  networkGeneration: z.int().optional(),
  paused: z.strictObject({ hasMemory: z.boolean(), service: service.optional() }),
});

const schema = z.strictObject({
  formatVersion: z.literal(FORMAT),
  /** Whether it runs on where it arrives. */
  wasRunning: z.boolean(),
  createdAtMs: z.int(),
  /** Of its memory, where that is put together from changes: no name of a chunk is of the whole. */
  memoryDigest: z.int().min(0).max(0xffff_ffff).optional(),
  archive: archiveManifestSchema,
  record: recordSchema,
});

export type Parked = z.infer<typeof schema>;
export type ParkedFiles = Readonly<Record<Part, string>>;

export function parkedId(id: string, departure: string): string {
  return `${id}/${departure}`;
}

/** Those of a paused sandbox whose VMM has ended; of one without memory, empty ones are made. */
export async function openParkedFiles(
  { record, paths }: Pick<Sandbox, 'record' | 'paths'>,
  faults: Faults,
): Promise<{ readonly files: ParkedFiles; readonly needsResync: boolean }> {
  const dir = pausedDir(paths.dir);
  if (record.paused?.hasMemory === true) {
    const { vm, manifest } = await openPaused(dir, paths.layerPath, faults);
    const files = { memory: vm.memoryPath, state: vm.statePath, disk: paths.layerPath };
    return { files, needsResync: manifest.needsResync };
  }
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const [memory, state] = [join(dir, 'no-memory'), join(dir, 'no-state')];
  for (const path of [memory, state]) await writeFile(path, '');
  return { files: { memory, state, disk: paths.layerPath }, needsResync: false };
}

/** `files`: of one that was paused without its memory, those of memory and state are empty. */
export async function describeParked(
  id: string,
  record: SandboxRecord,
  files: ParkedFiles,
  { needsResync, wasRunning }: { readonly needsResync: boolean; readonly wasRunning: boolean },
): Promise<Parked> {
  const { options, compatibility, kernelDigest, paused, createdAtMs } = record;
  const { name, serviceHash, expiresAtMs, secrets = [] } = metadataOf(record);
  const { rootfsPath: _, agentPath, ...rootfs } = options.rootfs;
  const describe = async (part: Part) => {
    const { size } = await stat(files[part]);
    const contentBytes = Math.min(size, await allocatedBytes(files[part]));
    return { name: basename(files[part]), sizeBytes: size, contentBytes };
  };
  const [memory, state, disk] = await Promise.all(PARTS.map(describe));
  const described = {
    formatVersion: FORMAT,
    wasRunning,
    createdAtMs,
    archive: {
      ...{ formatVersion: ARCHIVE_FORMAT, sourceId: id, takenAtMs: Math.round(paused?.atMs ?? Date.now()) },
      ...{ compatibility, kernelDigest, needsResync, parts: { memory, state, disk } },
      options: {
        ...toSavedOptions(record),
        rootfs: { ...rootfs, ...(agentPath !== undefined && { agent: basename(agentPath) }) },
      },
    },
    record: {
      owner: record.owner,
      ...{ name, serviceHash, expiresAtMs },
      uses: Object.fromEntries(secrets.flatMap(({ id, use }) => (use ? [[id, use.name]] : []))),
      sourceSnapshotId: record.sourceSnapshotId,
      sourceSandboxId: record.sourceSandboxId,
      parentSnapshotId: record.parentSnapshotId,
      ports: record.ports,
      publish: options.publish,
      service: options.service,
      readyPort: options.readyPort,
      networkGeneration: record.networkGeneration,
      paused: { hasMemory: paused?.hasMemory === true, service: paused?.service },
    },
  };
  // As JSON: without what is undefined.
  return schema.parse(JSON.parse(JSON.stringify(described)));
}

/** AppError `internal` with the reason. */
export function readParked({ id, tenant, description, files }: StoreManifest): Parked {
  try {
    const read = schema.parse(description);
    const { archive, record } = read;
    if (record.owner?.tenant !== tenant) throw new Error('its chunks are not of its owner');
    if (!id.startsWith(`${archive.sourceId}/`)) throw new Error('it is of another sandbox');
    checkSizes(archive);
    const isSame = PARTS.every(
      (part, at) => files[at]?.part === part && files[at]?.sizeBytes === archive.parts[part].sizeBytes,
    );
    if (!isSame || files.length !== PARTS.length) throw new Error('its files are not those of a sandbox');
    return read;
  } catch (cause) {
    const reason = toError(cause).message.replaceAll(/\s+/g, ' ').slice(0, MAX_REASON_CHARS);
    throw new AppError('internal', `sandbox ${id} of the snapshot store cannot be used: ${reason}`, {
      stage: 'store',
      cause,
    });
  }
}

/** The record without network and files of this host. `resolved`: the options of the archive, as they are here. */
export function toArrivedRecord(
  { createdAtMs, archive, record, wasRunning }: Parked,
  resolved: ResolvedImport,
): Omit<SandboxRecord, 'vmm' | 'incarnation' | 'isReady'> {
  const { secrets, inherited, ...options } = resolved;
  const { owner, name, serviceHash, expiresAtMs, uses, ports, publish, service, readyPort } = record;
  const own = toOwner(owner);
  const bound = secrets.map((binding): StoredBinding => {
    const used = uses[binding.id];
    return used === undefined ? binding : { ...binding, use: { scope: scopeOfOwner(own), name: used } };
  });
  return {
    createdAtMs,
    options: {
      ...(options as ResolvedSandboxOptions),
      ...(publish && { publish }),
      ...(service && { service }),
      ...(readyPort !== undefined && { readyPort }),
    },
    metadata: {
      labels: inherited?.labels ?? {},
      env: inherited?.env ?? [],
      ...(name !== undefined && { name }),
      ...(bound.length > 0 && { secrets: bound }),
      ...(serviceHash !== undefined && { serviceHash }),
      ...(expiresAtMs !== undefined && { expiresAtMs }),
    },
    ...(own && { owner: own }),
    ...(record.sourceSnapshotId !== undefined && { sourceSnapshotId: record.sourceSnapshotId }),
    ...(record.sourceSandboxId !== undefined && { sourceSandboxId: record.sourceSandboxId }),
    ...(record.parentSnapshotId !== undefined && { parentSnapshotId: record.parentSnapshotId }),
    compatibility: archive.compatibility,
    kernelDigest: archive.kernelDigest,
    ...(ports && { ports }),
    ...(record.networkGeneration !== undefined && { networkGeneration: record.networkGeneration }),
    paused: {
      atMs: archive.takenAtMs,
      hasMemory: record.paused.hasMemory,
      storedBytes: 0,
      ...(record.paused.service && { service: record.paused.service }),
      isMoved: true,
      ...(wasRunning && { isToResume: true }),
    },
  };
}

export function toOwner(owner: Parked['record']['owner']): SandboxRecord['owner'] {
  if (owner === undefined) return undefined;
  const { key, tenant } = owner;
  return tenant === undefined ? { key } : { key, tenant };
}
