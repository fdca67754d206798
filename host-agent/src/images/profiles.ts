// The baked rootfs profiles of the data directory, from which sandboxes are created.
import { BuilderError, listProfiles, resolveProfile } from '@sandboxd/rootfs-builder';
import { AppError, toError } from '../lib/errors.ts';
import type { Bakery } from './bakery.ts';

type Profile = {
  readonly name: string;
  readonly description: string;
  /** SHA-256 of the image file. */
  readonly digest: string;
  readonly rootfsPath: string;
  readonly sizeBytes: number;
  readonly packages: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  readonly createdAt: Date;
};

export class Profiles {
  readonly #dataDir: string;
  readonly #bakery: Bakery | undefined;

  /** With a bakery, its profiles are baked on demand. */
  constructor(dataDir: string, bakery?: Bakery) {
    this.#dataDir = dataDir;
    this.#bakery = bakery;
  }

  /** Sorted by name; damaged profiles are omitted. */
  async list(): Promise<Profile[]> {
    return (await listProfiles(this.#dataDir)).map(toProfile);
  }

  /**
   * Returns the profile; bakes it first if necessary, which takes about a minute. AppError as `Bakery.make` and `get`.
   */
  async obtain(name: string, signal?: AbortSignal): Promise<Profile> {
    if (await this.isToBeBaked(name)) await this.#bakery?.make(name, signal);
    return this.get(name);
  }

  /** Names of profiles that are not baked, but can be baked on demand. */
  async listUnbaked(): Promise<string[]> {
    const names = this.#bakery?.names ?? [];
    const unbaked = await Promise.all(names.map((name) => this.isToBeBaked(name)));
    return names.filter((_, at) => unbaked[at]);
  }

  /** Whether the profile is not baked, but can be baked on demand. */
  async isToBeBaked(name: string): Promise<boolean> {
    if (this.#bakery?.names.includes(name) !== true) return false;
    return resolveProfile(this.#dataDir, name).then(
      () => false,
      (error: unknown) => error instanceof BuilderError && error.code === 'profile_not_baked',
    );
  }

  /** AppError invalid_argument with the list of known profiles, or `internal` when the profile's image is damaged. */
  async get(name: string): Promise<Profile> {
    // Names become directory names; a profile with any other name cannot exist.
    if (/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name)) {
      try {
        return toProfile(await resolveProfile(this.#dataDir, name));
      } catch (error) {
        if (!(error instanceof BuilderError)) throw error;
        if (error.code === 'profile_corrupt') {
          throw new AppError('internal', `profile ${name} cannot be used: ${toError(error).message}`, {
            stage: 'profile',
            cause: error,
          });
        }
      }
    }
    const baked = (await this.list()).map((profile) => profile.name);
    const known = [...baked, ...(await this.listUnbaked())];
    const hint =
      known.length === 0 ? 'none is baked yet; run: sandboxd profiles bake' : `known are ${known.join(', ')}`;
    throw new AppError('invalid_argument', `unknown profile ${JSON.stringify(name.slice(0, 80))}; ${hint}`);
  }
}

function toProfile(resolved: Awaited<ReturnType<typeof resolveProfile>>): Profile {
  const { manifest, rootfsPath } = resolved;
  return {
    name: manifest.name,
    description: manifest.description,
    digest: manifest.rootfsSha256,
    rootfsPath,
    sizeBytes: manifest.sizeBytes,
    packages: manifest.packages,
    env: manifest.env,
    workdir: manifest.workdir,
    createdAt: new Date(manifest.createdAt),
  };
}
