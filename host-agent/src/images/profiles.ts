// The rootfs profiles of the data directory, from which sandboxes are created. Built-in ones are baked when the first
// client requests them.
import { type ServiceSpec, serviceSpec } from '@sandboxd/api';
import {
  type BakeOptions,
  BuilderError,
  bakeProfile,
  builtinProfileNames,
  findRecipe,
  listProfiles,
  openRecipeBook,
  type ProgressEvent,
  type RecipeService,
  requireBakingHost,
  resolveProfile,
} from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import { AppError, firstLine, toError } from '../lib/errors.ts';
import { raceSignal } from '../lib/wait.ts';

export type ProfileService = {
  readonly spec: ServiceSpec;
  /** A port of the guest, where it answers when it is ready. */
  readonly readyPort: number;
};

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
  /** Of each of its sandboxes, unless a create has another one. */
  readonly service?: ProfileService;
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
    return (await listProfiles(this.#dataDir)).flatMap((each) => {
      try {
        return [toProfile(each)];
      } catch {
        return [];
      }
    });
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

function toProfileService({ readyPort, ...spec }: RecipeService): ProfileService {
  const parsed = serviceSpec.safeParse({ ...spec, restart: { policy: 'always' } });
  if (parsed.success) return { spec: parsed.data, readyPort };
  throw new AppError('internal', `the service of a profile is invalid: ${firstLine(parsed.error)}`);
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
    ...(manifest.service && { service: toProfileService(manifest.service) }),
    createdAt: new Date(manifest.createdAt),
  };
}

export type BakeryOptions = Pick<BakeOptions, 'dataDir' | 'agentDir'> & {
  /** Directory whose node_modules contain the runtimes that the recipes use. */
  readonly npmDir: string;
  readonly log: Logger;
  /** Replaced in tests. */
  readonly bake?: typeof bakeProfile;
};

export class Bakery {
  readonly #options: BakeryOptions;
  readonly #running = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();

  constructor(options: BakeryOptions) {
    this.#options = options;
  }

  get names(): readonly string[] {
    return builtinProfileNames();
  }

  /**
   * Bakes the profile and makes it current. Concurrent calls for one profile share one bake. The bake continues when
   * every caller has aborted, so the next call finds the profile. AppError unsupported when the host cannot bake,
   * upstream or exhausted, with advice in the message; or the signal's reason.
   */
  async make(name: string, signal?: AbortSignal): Promise<void> {
    let work = this.#running.get(name);
    if (work === undefined) {
      work = this.#bake(name).finally(() => this.#running.delete(name));
      this.#running.set(name, work);
    }
    await (signal === undefined ? work : raceSignal(work, signal));
  }

  /** Cancels the running bakes and waits until they have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await Promise.allSettled(this.#running.values());
  }

  async #bake(name: string): Promise<void> {
    const { dataDir, agentDir, npmDir, log, bake = bakeProfile } = this.#options;
    const startedAt = performance.now();
    log.info({ profile: name }, 'baking a profile on demand');
    try {
      await requireBakingHost();
      const book = await openRecipeBook();
      const recipe = findRecipe(book, name);
      const { signal } = this.#stopping;
      const progress = (event: ProgressEvent) => log.debug({ profile: name, ...event }, 'baking');
      await bake({ dataDir, agentDir, npmDir, recipe, book, progress, signal });
    } catch (error) {
      this.#stopping.signal.throwIfAborted();
      log.error({ err: error, profile: name }, 'cannot bake a profile');
      throw explain(name, error);
    }
    log.info({ profile: name, ms: Math.round(performance.now() - startedAt) }, 'baked a profile');
  }
}

function explain(name: string, error: unknown): AppError {
  const code = error instanceof BuilderError ? error.code : undefined;
  const advice = `run \`sandboxd profiles bake ${name}\` on its host to see all of it`;
  const message = `profile ${name} is not baked yet, and cannot be: ${firstLine(error)}; ${advice}`;
  if (code === 'host_disk_full') return new AppError('exhausted', message, { cause: error });
  // The program exists but failed: in most cases the package mirror is the cause.
  if (code === 'command_failed') return new AppError('upstream', message, { cause: error });
  return new AppError(code === undefined ? 'internal' : 'unsupported', message, { cause: error });
}
