// All paths below the data directory.
import { join } from 'node:path';
import { shortDigest } from './digest.ts';

export const CURRENT_FILE = 'current';

export function profilesDirectory(dataDir: string): string {
  return join(dataDir, 'profiles');
}

export function profileDirectory(dataDir: string, name: string): string {
  return join(profilesDirectory(dataDir), name);
}

export function bakedDirectory(dataDir: string, name: string, digest: string): string {
  return join(profileDirectory(dataDir, name), shortDigest(digest));
}

/** Package trees, shared by profiles and agent versions. The leading dot separates them from profile names. */
export function treesDirectory(dataDir: string): string {
  return join(profilesDirectory(dataDir), '.trees');
}

export function kernelsDirectory(dataDir: string): string {
  return join(dataDir, 'kernels');
}

/** Downloaded kernel packages, so that a changed init does not need the mirror. */
export function kernelPackagesDirectory(dataDir: string): string {
  return join(kernelsDirectory(dataDir), '.packages');
}

/** The agent's own images. */
export function agentsDirectory(dataDir: string): string {
  return join(dataDir, 'agents');
}

export function layersDirectory(dataDir: string): string {
  return join(dataDir, 'layers');
}
