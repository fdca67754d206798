// The rootfs profiles a sandbox can be created from: what the bakery has put into the data directory.
import { BuilderError, listProfiles, resolveProfile } from '@sandboxd/rootfs-builder';
import { AppError, toError } from '../lib/errors.ts';

export type Profile = {
  readonly name: string;
  readonly description: string;
  /** SHA-256 of the image's bytes. */
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

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  /** Sorted by name; damaged ones are left out. */
  async list(): Promise<Profile[]> {
    return (await listProfiles(this.#dataDir)).map(toProfile);
  }

  /** AppError invalid_argument naming the known profiles, or `internal` when this one's image is damaged. */
  async get(name: string): Promise<Profile> {
    // Names become directory names; anything else cannot have been baked.
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
    const known = (await this.list()).map((profile) => profile.name);
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
