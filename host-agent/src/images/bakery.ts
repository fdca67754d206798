// Bakes the built-in profiles for whoever asks for one first.
import {
  type BakeOptions,
  BuilderError,
  bakeProfile,
  builtinProfileNames,
  findRecipe,
  openRecipeBook,
  type ProgressEvent,
  requireBakingHost,
} from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import { AppError, firstLine } from '../lib/errors.ts';
import { raceSignal } from '../lib/wait.ts';

export type BakeryOptions = Pick<BakeOptions, 'dataDir' | 'agentDir'> & {
  /** Directory whose node_modules have the runtimes of the recipes. */
  readonly npmDir: string;
  readonly log: Logger;
  /** For tests. */
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
   * Makes it current; several who want the same wait for one bake, which goes on when they leave: the next who asks finds it
   * done. AppError unsupported where the host cannot bake, upstream or exhausted, with what to do; the signal's reason.
   */
  async make(name: string, signal?: AbortSignal): Promise<void> {
    let work = this.#running.get(name);
    if (work === undefined) {
      work = this.#bake(name).finally(() => this.#running.delete(name));
      this.#running.set(name, work);
    }
    await (signal === undefined ? work : raceSignal(work, signal));
  }

  /** Ends what is under way, and waits for that. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await Promise.allSettled(this.#running.values());
  }

  async #bake(name: string): Promise<void> {
    const { dataDir, agentDir, npmDir, log, bake = bakeProfile } = this.#options;
    const startedAt = performance.now();
    log.info({ profile: name }, 'baking a profile, as somebody wants it');
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
  // What it runs is there: then it is the mirror, mostly.
  if (code === 'command_failed') return new AppError('upstream', message, { cause: error });
  return new AppError(code === undefined ? 'internal' : 'unsupported', message, { cause: error });
}
