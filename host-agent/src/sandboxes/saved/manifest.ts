// The manifest of a saved guest: whether it can be restored here, and whether its files are intact.
import { readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EGRESS_LOG_MODES } from '@sandboxd/api';
import { z } from 'zod';
import { AppError, toError } from '../../lib/errors.ts';
import { checksumSparse } from '../../lib/extents.ts';
import type { ResolvedSandboxOptions } from '../types.ts';

export const SAVED_FORMAT = 2 as const;
const MANIFEST_FILE = 'manifest.json';
/** Until it is whole. One of an earlier daemon is of no use. */
export const NEW_MANIFEST_FILE = 'manifest.json.new';
export const DISK_FILE = 'disk';

const fileSchema = z.object({
  name: z.string(),
  sizeBytes: z.number().int(),
  /** See lib/extents.ts. Absent until it was computed in the background. */
  checksum: z.string().optional(),
  /** A file with another modification time is checked by its checksum before use. */
  mtimeMs: z.number(),
});

const rootfsSchema = z.object({
  kind: z.enum(['profile', 'image', 'agent']),
  name: z.string(),
  digest: z.string(),
  imageDigest: z.string().optional(),
  rootfsPath: z.string(),
  env: z.record(z.string(), z.string()),
  workdir: z.string(),
  agentPath: z.string().optional(),
});

const portsSchema = z.array(z.union([z.number(), z.string()])).readonly();
const protocolSchema = z.enum(['tcp', 'udp']);
/** Strict: a rule without a field that it had would let more pass. */
const ruleSchema = z.union([
  z.strictObject({ host: z.string(), protocol: protocolSchema, ports: portsSchema }),
  z.strictObject({ cidr: z.string(), protocol: protocolSchema, ports: portsSchema }),
  z.strictObject({
    host: z.string(),
    protocol: z.enum(['tls', 'http', 'postgres']),
    ports: portsSchema,
    ech: z.literal('refuse').optional(),
    tls: z.literal('inspect').optional(),
    methods: z.array(z.string()).readonly().optional(),
    paths: z.array(z.string()).readonly().optional(),
    websocket: z.literal(true).optional(),
    encoded_slash: z.literal(true).optional(),
  }),
]);

const formSchema = z.union([
  z.enum(['bearer', 'basic', 'header', 'body']),
  z.object({ header: z.string() }),
  z.object({ query: z.string() }),
]);

/** A secret of its guest, without what would let it be used. */
const bindingSchema = z.strictObject({
  name: z.string(),
  id: z.string(),
  placeholder: z.string().nullable(),
  prefix: z.string(),
  env: z.string().optional(),
  hosts: z.array(z.string()).readonly(),
  ports: z.array(z.number()).readonly().optional(),
  forms: z.array(formSchema).readonly(),
  inject: z.object({ header: z.string(), format: z.string() }).optional(),
  plainHttp: z.literal(true).optional(),
});

/** A copy's service and ports are its own. `inherited`: what copies get with the options. */
type SavedOptions = Omit<ResolvedSandboxOptions, 'service' | 'readyPort' | 'publish'> & {
  readonly inherited?: unknown;
};

/** All options of the saved sandbox. For what a copy inherits, see inheritOptions. */
const optionsSchema = z.object({
  rootfs: rootfsSchema,
  vcpus: z.number().int(),
  memoryMib: z.number().int(),
  diskBytes: z.number().int(),
  timeoutS: z.number().int(),
  bootArgs: z.string(),
  idle: z
    .object({
      timeoutS: z.number().int(),
      action: z.enum(['delete', 'snapshot', 'pause']),
      keepLast: z.number().int().min(1).optional(),
      snapshotExpiresS: z.number().int().min(1).optional(),
    })
    .optional(),
  timeoutAction: z.literal('pause').optional(),
  autoResume: z.literal(false).optional(),
  /** Absent: nothing. Templates have none: copies of a template are of other clients. */
  inherited: z
    .object({
      labels: z.record(z.string(), z.string()),
      env: z.array(z.tuple([z.string(), z.string()]).readonly()).readonly(),
      /** Values are in the registry alone. */
      secrets: z.array(bindingSchema).readonly().optional(),
    })
    .optional(),
  network: z
    .object({
      allowlist: z.array(z.string()).readonly(),
      rules: z.array(ruleSchema).readonly().optional(),
      presets: z
        .array(z.object({ name: z.string(), rules: z.array(ruleSchema).readonly() }))
        .readonly()
        .optional(),
      log: z.enum(EGRESS_LOG_MODES).optional(),
    })
    .optional(),
} satisfies Record<keyof SavedOptions, z.ZodType>);

export const manifestSchema = z.object({
  formatVersion: z.literal(SAVED_FORMAT),
  createdAt: z.string(),
  /** Engine properties that must be equal: name, version, CPU model, device layout. */
  compatibility: z.record(z.string(), z.string()),
  kernelDigest: z.string(),
  /** Of a template: the tenant, or the key without a tenant, for which it was made. */
  owner: z.string().optional(),
  /** Of a template: hash of the service that runs in it, and is ready. */
  service: z.string().optional(),
  options: optionsSchema,
  /** Whether the guest may have been saved in the middle of a frame. */
  needsResync: z.boolean(),
  files: z.object({ memory: fileSchema, state: fileSchema, disk: fileSchema }),
});

export type SavedManifest = z.infer<typeof manifestSchema>;
type SavedFile = z.infer<typeof fileSchema>;

/** Without the checksum. */
export async function describeFile(dir: string, name: string): Promise<SavedFile> {
  const { size, mtimeMs } = await stat(join(dir, name));
  return { name, sizeBytes: size, mtimeMs };
}

/** Whether every file has a checksum, so that damage is detected. */
export function isChecksummed({ files }: SavedManifest): boolean {
  return Object.values(files).every(({ checksum }) => checksum !== undefined);
}

/**
 * Returns the manifest with the missing checksums added. AppError internal when a file changed since it was
 * described.
 */
export async function withChecksums(
  dir: string,
  manifest: SavedManifest,
  signal?: AbortSignal,
): Promise<SavedManifest> {
  const { memory, state, disk } = manifest.files;
  const complete = async (file: SavedFile): Promise<SavedFile> => {
    if (file.checksum !== undefined) return file;
    const path = join(dir, file.name);
    const checksum = await checksumSparse(path, signal);
    // Checked after reading, so that a change in between is not taken for saved content.
    const current = await describeFile(dir, file.name);
    if (!isSame(current, file)) throw damaged(path, 'was changed before its checksum was taken');
    return { ...file, checksum };
  };
  const files = { memory: await complete(memory), state: await complete(state), disk: await complete(disk) };
  return { ...manifest, files };
}

/** Writes the manifest, which makes a saved guest complete. */
export async function writeManifest(dir: string, manifest: SavedManifest): Promise<void> {
  const path = join(dir, NEW_MANIFEST_FILE);
  await writeFile(path, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600, flush: true });
  await rename(path, join(dir, MANIFEST_FILE));
}

/** AppError internal when it is missing or invalid. */
export async function readManifest(dir: string): Promise<SavedManifest> {
  try {
    const text = await readFile(join(dir, MANIFEST_FILE), 'utf8');
    return manifestSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new AppError(
      'internal',
      `${dir} holds no saved guest that this daemon can read: ${toError(error).message}`,
      {
        stage: 'manifest',
        cause: error,
      },
    );
  }
}

/**
 * Detects damage: missing or resized files at once, changed content by checksum if the modification time differs or
 * `isThorough`. AppError internal with the file.
 */
export async function verifyFiles(dir: string, manifest: SavedManifest, isThorough: boolean): Promise<void> {
  for (const file of Object.values(manifest.files)) {
    const path = join(dir, file.name);
    const found = await stat(path).catch(() => undefined);
    if (found?.size !== file.sizeBytes) {
      throw damaged(
        path,
        found === undefined ? 'is missing' : `has ${found.size} bytes, not ${file.sizeBytes}`,
      );
    }
    if (file.checksum === undefined) {
      if (isSame({ ...file, mtimeMs: found.mtimeMs }, file)) continue;
      throw damaged(path, 'was changed before its checksum was taken');
    }
    if (!isThorough && isSame({ ...file, mtimeMs: found.mtimeMs }, file)) continue;
    const checksum = await checksumSparse(path);
    if (checksum !== file.checksum) throw damaged(path, `has checksum ${checksum}, not ${file.checksum}`);
  }
}

/** Compares size and modification time only. */
function isSame(a: SavedFile, b: SavedFile): boolean {
  return a.sizeBytes === b.sizeBytes && Math.abs(a.mtimeMs - b.mtimeMs) < 1;
}

function damaged(path: string, what: string): AppError {
  return new AppError('internal', `the saved guest is damaged: ${path} ${what}; delete it`, {
    stage: 'verify',
  });
}
