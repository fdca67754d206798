// The templates on disk: opened at the start, evicted (LRU) within a disk budget, discarded when they are bad.
import { stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { toError } from '../lib/errors.ts';
import { chooseEvicted } from '../lib/fair-share.ts';
import type { ResourceContext } from './resources/resource.ts';
import {
  Checksums,
  removeSaved,
  SavedGuest,
  savedBytes,
  sweepSaved,
  templatesRoot,
} from './saved/saved-guest.ts';

export type TemplateStoreOptions = {
  readonly context: ResourceContext;
  /** Disk budget of all templates together; the least recently used are evicted first. 0 turns templates off. */
  readonly budgetBytes: number;
  readonly log: Logger;
};

export class TemplateStore {
  readonly #options: TemplateStoreOptions;
  readonly #ready = new Map<string, SavedGuest>();
  /** Templates being removed, possibly after their last users finish; their directories exist until then. */
  readonly #removals = new Map<string, Promise<void>>();
  /** Templates that more than one tenant used; they count towards no tenant's share. */
  readonly #shared = new WeakSet<SavedGuest>();
  readonly #checksums: Checksums;

  constructor(options: TemplateStoreOptions) {
    this.#options = options;
    this.#checksums = new Checksums(options.log);
  }

  get count(): number {
    return this.#ready.size;
  }

  /**
   * Opens the templates that match this daemon's engine, kernel and agent, and removes the others. `findAgent`: the
   * agent's image; undefined if any agent will do. Removes none if that rejects.
   */
  async open(findAgent: () => Promise<RootfsSource | undefined>): Promise<void> {
    const { context, log } = this.#options;
    const root = templatesRoot(context.directories.dataDir);
    const keys = await sweepSaved(root, () => true);
    const agent = keys.length === 0 ? undefined : await findAgent();
    for (const key of keys) {
      try {
        const saved = await SavedGuest.open(join(root, key));
        const reason = saved.incompatibility(context.engines.current.compatibility());
        if (reason !== undefined) throw new Error(reason);
        if (saved.manifest.kernelDigest !== context.system.kernel.digest)
          throw new Error('it was made with a different kernel');
        if (agent !== undefined && saved.manifest.options.rootfs.agentPath !== agent.agentPath)
          throw new Error('it was made with a different agent');
        this.add(key, saved);
      } catch (error) {
        log.info({ template: key, reason: toError(error).message }, 'template removed at start');
        await removeSaved(join(root, key));
      }
    }
    await this.evict();
  }

  async stop(): Promise<void> {
    await this.#checksums.stop();
  }

  get(key: string): SavedGuest | undefined {
    return this.#ready.get(key);
  }

  /** The caller evicts others then. */
  add(key: string, saved: SavedGuest): void {
    this.#ready.set(key, saved);
    this.#checksums.add(saved);
  }

  /** Notes a use, for the eviction. */
  async use(saved: SavedGuest, owner: string | undefined): Promise<SavedGuest> {
    if (saved.manifest.owner !== owner) this.#shared.add(saved);
    const now = new Date();
    await utimes(saved.dir, now, now).catch(() => undefined);
    return saved;
  }

  /** Resolves when a template of this key that is being removed is gone, or cannot be. */
  async removed(key: string): Promise<void> {
    await this.#removals.get(key)?.catch(() => undefined);
  }

  async discard(saved: SavedGuest): Promise<void> {
    for (const [key, ready] of this.#ready) if (ready === saved) await this.#remove(key, saved);
  }

  async #remove(key: string, saved: SavedGuest): Promise<void> {
    this.#ready.delete(key);
    const removal = saved.remove().finally(() => this.#removals.delete(key));
    this.#removals.set(key, removal);
    await removal;
  }

  /**
   * Evicts templates until the rest fit the budget: first those of the tenant with the most, least recently used
   * first. `spare` stays.
   */
  async evict(spare?: SavedGuest): Promise<void> {
    const entries = await Promise.all(
      [...this.#ready].map(async ([key, saved]) => {
        const [size, usedAtMs] = await Promise.all([
          savedBytes(saved),
          stat(saved.dir).then(({ mtimeMs }) => mtimeMs),
        ]);
        const owner = this.#shared.has(saved) ? undefined : saved.manifest.owner;
        return { key, saved, owner, size, usedAtMs, isPinned: saved === spare };
      }),
    );
    for (const { key, saved, size } of chooseEvicted(entries, this.#options.budgetBytes)) {
      await this.#remove(key, saved);
      this.#options.context.events.emit({ kind: 'template-evicted', template: key, sizeBytes: size });
    }
  }
}
