// Bakes a built-in profile when the first client requests it.
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
