// Where everything lies below the data directory, in one place.
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

/** Package trees shared by profiles and agent versions; a dot keeps them out of the profile names. */
export function treesDirectory(dataDir: string): string {
  return join(profilesDirectory(dataDir), '.trees');
}

export function kernelsDirectory(dataDir: string): string {
  return join(dataDir, 'kernels');
}

/** Kernel packages as downloaded, so that a changed init needs no mirror. */
export function kernelPackagesDirectory(dataDir: string): string {
  return join(kernelsDirectory(dataDir), '.packages');
}

/** Images of the agent alone. */
export function agentsDirectory(dataDir: string): string {
  return join(dataDir, 'agents');
}

export function layersDirectory(dataDir: string): string {
  return join(dataDir, 'layers');
}
