// The baked profiles of a data directory: the current bake of each, its path and its integrity.
import { readdir, readFile, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { BuilderError, hasErrno } from '../errors.ts';
import { digestFile, shortDigest } from '../lib/digest.ts';
import { bakedDirectory, CURRENT_FILE, profileDirectory, profilesDirectory } from '../lib/layout.ts';
import { type ProfileManifest, profileManifestSchema } from './manifest.ts';

export type ResolvedProfile = { manifest: ProfileManifest; directory: string; rootfsPath: string };

export const MANIFEST_FILE = 'manifest.json';
export const ROOTFS_FILE = 'rootfs.ext4';

/** Sorted by name, without damaged profiles (`resolveProfile` throws the reason). */
export async function listProfiles(dataDir: string): Promise<ResolvedProfile[]> {
  const names = await listProfileNames(dataDir);
  const found = await Promise.allSettled(names.map((name) => resolveProfile(dataDir, name)));
  return found.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

/** Sorted; all profiles with a finished bake, damaged ones included. */
export async function listProfileNames(dataDir: string): Promise<string[]> {
  const entries = await readdir(profilesDirectory(dataDir), { withFileTypes: true }).catch(() => []);
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  const pointers = await Promise.all(
    names.map((name) => readOptional(join(profileDirectory(dataDir, name), CURRENT_FILE))),
  );
  return names.filter((name, at) => !name.startsWith('.') && pointers[at] !== undefined).sort();
}

/**
 * The current bake of a profile, after a check of size and modification time (no reading of the image).
 * Throws `profile_not_baked` or `profile_corrupt`.
 */
export async function resolveProfile(dataDir: string, name: string): Promise<ResolvedProfile> {
  const digest = await readCurrentDigest(dataDir, name);
  const profile = digest === undefined ? undefined : await readBaked(dataDir, name, digest);
  if (profile !== undefined) return profile;
  throw new BuilderError(
    'profile_not_baked',
    `profile "${name}" is not baked in ${dataDir}; run: sandboxd profiles bake ${name}`,
  );
}

/** Reads the whole image and compares its SHA-256. Returns the profile, throws `profile_corrupt` otherwise. */
export async function verifyProfile(
  dataDir: string,
  name: string,
  signal?: AbortSignal,
): Promise<ResolvedProfile> {
  const profile = await resolveProfile(dataDir, name).catch(async (error: unknown) => {
    if (!(error instanceof BuilderError) || error.code !== 'profile_corrupt') throw error;
    const digest = await readCurrentDigest(dataDir, name);
    const touched =
      digest === undefined ? undefined : await readBaked(dataDir, name, digest, { isTimeChecked: false });
    if (touched === undefined) throw error;
    return touched; // only the time stamp differs, perhaps after a copy: the digest decides
  });
  const { manifest, rootfsPath } = profile;
  const actual = await digestFile(rootfsPath, signal);
  if (actual !== manifest.rootfsSha256) {
    throw corrupt(name, `${rootfsPath} has SHA-256 ${actual}, its manifest says ${manifest.rootfsSha256}`);
  }
  await markIntact(rootfsPath, manifest);
  return profile;
}

/** A bake by digest, current or not; undefined when it does not exist. Throws `profile_corrupt` when it is damaged. */
export async function readBaked(
  dataDir: string,
  name: string,
  digest: string,
  { isTimeChecked = true } = {},
): Promise<ResolvedProfile | undefined> {
  const directory = bakedDirectory(dataDir, name, digest);
  const rootfsPath = join(directory, ROOTFS_FILE);
  const text = await readOptional(join(directory, MANIFEST_FILE));
  if (text === undefined) return undefined;
  const parsed = profileManifestSchema.safeParse(parseJson(text));
  if (!parsed.success)
    throw corrupt(name, `${join(directory, MANIFEST_FILE)} is not a manifest of this version`);
  const manifest = parsed.data;
  const stats = await stat(rootfsPath).catch(() => undefined);
  if (stats === undefined) throw corrupt(name, `${rootfsPath} is missing`);
  if (stats.size !== manifest.sizeBytes) {
    throw corrupt(name, `${rootfsPath} has ${stats.size} bytes, its manifest says ${manifest.sizeBytes}`);
  }
  if (isTimeChecked && Math.round(stats.mtimeMs) !== manifest.rootfsMtimeMs) {
    throw corrupt(name, `${rootfsPath} was modified after it was baked`);
  }
  return { manifest, directory, rootfsPath };
}

/** Sets the image's modification time to the manifest's value. */
export async function markIntact(rootfsPath: string, manifest: ProfileManifest): Promise<void> {
  const time = new Date(manifest.rootfsMtimeMs);
  await utimes(rootfsPath, time, time);
}

async function readCurrentDigest(dataDir: string, name: string): Promise<string | undefined> {
  // The name comes from a request, so it must be a valid directory name.
  if (!/^[a-z0-9][a-z0-9._-]*$/.test(name)) return undefined;
  const text = (await readOptional(join(profileDirectory(dataDir, name), CURRENT_FILE)))?.trim();
  return text !== undefined && /^[0-9a-f]{16,64}$/.test(text) ? shortDigest(text) : undefined;
}

function corrupt(name: string, found: string): BuilderError {
  const hint = `run \`sandboxd profiles verify ${name}\` to check its content, or \`sandboxd profiles bake --refresh ${name}\` to make it again`;
  return new BuilderError('profile_corrupt', `profile "${name}" is damaged: ${found}; ${hint}`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (hasErrno(error, 'ENOENT') || hasErrno(error, 'ENOTDIR')) return undefined;
    throw error;
  }
}
