// Templates: booted, idle guests that creates copy. They are made on demand and evicted (LRU) within a disk budget.
import { stat, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { FirstStartError } from '../engines/choice.ts';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { AppError, toError } from '../lib/errors.ts';
import { chooseEvicted } from '../lib/fair-share.ts';
import { raceSignal } from '../lib/wait.ts';
import type { Admission } from './admission.ts';
import type { ResourceContext } from './resources/resource.ts';
import {
  Checksums,
  removeSaved,
  SavedGuest,
  savedBytes,
  sweepSaved,
  templatesRoot,
} from './saved/saved-guest.ts';
import {
  type TemplateContext,
  TemplateTrust,
  templatesInRoot,
  templateWithoutRoot,
} from './template-choice.ts';
import { type MadeTemplate, OwnBoot, type OwnedCandidate, TemplateMaker } from './template-making.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type TemplatesOptions = {
  readonly context: ResourceContext;
  /** Disk budget of all templates together; the least recently used are evicted first. 0 turns templates off. */
  readonly budgetBytes: number;
  /** Layer size of templates; smaller requests get templates of their own size. */
  readonly diskBytes: number;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  /** Reserves memory and disk space until disposed; rejects when there is not enough. */
  readonly reserve: Admission['reserve'];
  readonly log: Logger;
};

/** After this many creates from a less specific template, the most specific one is made. */
const USES_BEFORE_SPECIFIC = 2;
/** After a failure to make a template, it is not tried again for this long. */
const RETRY_MS = 60_000;

/** More are not queued, because a client could ask for many sizes. A later create of the same kind tries again. */
const MAX_PENDING = 4;
/** Maximum number of template keys whose uses or failures are remembered. */
const MAX_REMEMBERED = 1024;

export class Templates {
  readonly #options: TemplatesOptions;
  readonly #ready = new Map<string, SavedGuest>();
  /** Templates that are made in the background. */
  readonly #pending = new Map<string, Promise<SavedGuest>>();
  /** Those that creates make of the guests that they boot. */
  readonly #booting = new Map<string, OwnBoot>();
  readonly #maker: TemplateMaker;
  /** Creates wait for it; they come after the choice of an engine, with which it begins. */
  #opening: Promise<void> = Promise.resolve();
  readonly #failedAt = new Map<string, number>();
  /** Templates being removed, possibly after their last users finish; their directories exist until then. */
  readonly #removals = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #uses = new Map<string, number>();
  /** Templates that more than one tenant used; they count towards no tenant's share. */
  readonly #shared = new WeakSet<SavedGuest>();
  readonly #checksums: Checksums;
  readonly trust = new TemplateTrust();
  /** Counts creates that may use a template, by the result of the lookup. */
  readonly lookups = { hit: 0, made: 0, none: 0 };

  constructor(options: TemplatesOptions) {
    this.#options = options;
    this.#maker = new TemplateMaker({
      ...options,
      removed: async (key) => this.#removals.get(key)?.catch(() => undefined),
      signal: this.#stopping.signal,
    });
    this.#checksums = new Checksums(options.log);
  }

  /** Opens the templates of an earlier daemon; while no engine is chosen, as soon as one is. */
  async start(): Promise<void> {
    const { engines } = this.#options.context;
    engines.onceChosen(() => {
      this.#opening = this.#open();
      this.#opening.catch((err) => this.#options.log.error({ err }, 'cannot open the templates'));
    });
    if (engines.ifChosen !== undefined) await this.#opening;
  }

  /** Opens the templates that match this daemon's engine, kernel and agent, and removes the others. */
  async #open(): Promise<void> {
    const { context, log } = this.#options;
    const root = templatesRoot(context.directories.dataDir);
    for (const key of await sweepSaved(root, () => true)) {
      try {
        const saved = await SavedGuest.open(join(root, key));
        const reason = saved.incompatibility(context.engines.current.compatibility());
        if (reason !== undefined) throw new Error(reason);
        if (saved.manifest.kernelDigest !== context.system.kernel.digest)
          throw new Error('it was made with a different kernel');
        const agent = await this.#agentRootfs();
        if (agent !== undefined && saved.manifest.options.rootfs.agentPath !== agent.agentPath)
          throw new Error('it was made with a different agent');
        this.#ready.set(key, saved);
        this.#checksums.add(saved);
      } catch (error) {
        log.info({ template: key, reason: toError(error).message }, 'template removed at start');
        await removeSaved(join(root, key));
      }
    }
    await this.#evict();
  }

  /** Cancels the templates that are being made, and waits until they are undone. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await Promise.allSettled([
      this.#opening,
      ...this.#pending.values(),
      ...[...this.#booting.values()].map(({ made }) => made),
    ]);
    await this.#checksums.stop();
  }

  /**
   * Returns the template for a create; where there is none, the one that it is to make of the guest that it boots, for
   * which concurrent creates of the same kind wait. Undefined when the create must cold-boot and make none: templates
   * are off, it has boot arguments, or the template could not be made. Throws FirstStartError as `bootOrReplaceEngine`
   * does.
   */
  async obtain(
    options: ResolvedSandboxOptions,
    signal: AbortSignal,
    owner?: string,
  ): Promise<SavedGuest | OwnBoot | undefined> {
    if (this.#options.budgetBytes === 0 || options.bootArgs !== '') return undefined;
    await this.#opening;
    const agent = await this.#agentRootfs();
    const context = this.#templateContext();
    const inRoot = templatesInRoot(options, agent?.agentPath, context);
    const candidates = [
      ...inRoot.flatMap((each) => [each, each.booted]),
      ...(agent === undefined ? [] : [templateWithoutRoot(options, agent, context)]),
    ];
    const [{ booted }] = inRoot;
    for (;;) {
      const ready = candidates.map(({ key }) => this.#ready.get(key)).find((saved) => saved !== undefined);
      if (ready !== undefined) {
        this.lookups.hit += 1;
        return this.#use(ready, owner);
      }
      const other = this.#booting.get(booted.key);
      if (other === undefined) break;
      const made = await raceSignal(other.made, signal).catch((error: unknown) => error);
      signal.throwIfAborted();
      if (made instanceof SavedGuest) {
        this.lookups.made += 1;
        return this.#use(made, owner);
      }
      // The guest of this create would not boot on that engine either.
      if (made instanceof FirstStartError) throw made;
      if (!other.isCancelled) break;
    }
    if (!this.#hasFailed(booted.key)) return this.#startOwn({ ...booted, owner }, signal);
    this.lookups.none += 1;
    return undefined;
  }

  async #use(saved: SavedGuest, owner: string | undefined): Promise<SavedGuest> {
    if (saved.manifest.owner !== owner) this.#shared.add(saved);
    const now = new Date();
    await utimes(saved.dir, now, now).catch(() => undefined);
    return saved;
  }

  #startOwn(candidate: OwnedCandidate, signal: AbortSignal): OwnBoot {
    const { key, options } = candidate;
    const own = new OwnBoot({
      diskBytes: options.diskBytes,
      signal,
      save: async (...start) =>
        this.#publish(candidate, await this.#maker.ofBooted(candidate, ...start), { isFirst: true }),
    });
    this.#booting.set(key, own);
    own.made.then(
      () => {
        this.#booting.delete(key);
        this.lookups.made += 1;
      },
      (error: unknown) => {
        this.#booting.delete(key);
        this.lookups.none += 1;
        if (own.isCancelled) return;
        this.#options.log.warn(
          { template: key, err: toError(error) },
          'cannot make a template of a booted guest',
        );
        remember(this.#failedAt, key, performance.now());
      },
    );
    return own;
  }

  get count(): number {
    return this.#ready.size;
  }

  /**
   * Records that a copy of `saved` started with these options. Options that are used repeatedly get a more specific
   * template, which is made in the background from another copy. Its copies skip entering a root and adding an
   * interface.
   */
  copySucceeded(saved: SavedGuest, options: ResolvedSandboxOptions, owner?: string): void {
    this.trust.copySucceeded(saved);
    const { agentPath } = saved.manifest.options.rootfs;
    const [nearest] = templatesInRoot(options, agentPath, this.#templateContext());
    const { key } = nearest;
    if (this.#ready.has(key) || basename(saved.dir) === key) return;
    const uses = (this.#uses.get(key) ?? 0) + 1;
    remember(this.#uses, key, uses);
    if (uses >= USES_BEFORE_SPECIFIC) this.#startMaking({ ...nearest, owner }, saved);
  }

  /** Records that a guest with these options booted. Creates with other root file systems get a generic template. */
  async bootSucceeded(options: ResolvedSandboxOptions, owner?: string): Promise<void> {
    if (this.#options.budgetBytes === 0 || options.bootArgs !== '') return;
    const agent = await this.#agentRootfs();
    if (agent !== undefined)
      this.#startMaking({ ...templateWithoutRoot(options, agent, this.#templateContext()), owner });
  }

  /** Cancels the one that is being made in the background; undefined if there is none. */
  giveWay(): Promise<void> | undefined {
    return this.#maker.giveWay();
  }

  #hasFailed(key: string): boolean {
    return performance.now() - (this.#failedAt.get(key) ?? Number.NEGATIVE_INFINITY) < RETRY_MS;
  }

  #startMaking(candidate: OwnedCandidate, from?: SavedGuest): void {
    const { key } = candidate;
    if (this.#ready.has(key) || this.#pending.has(key) || this.#hasFailed(key)) return;
    if (this.#pending.size >= MAX_PENDING) return;
    const made = this.#maker
      .inBackground(candidate, from)
      .then((made) => this.#publish(candidate, made))
      .finally(() => this.#pending.delete(key));
    this.#pending.set(key, made);
    made.catch((error) => {
      if (this.#stopping.signal.aborted) return;
      this.#options.log.warn({ template: key, err: toError(error) }, 'cannot make a template');
      remember(this.#failedAt, key, performance.now());
    });
  }

  async #publish(
    { key, booted }: OwnedCandidate,
    { saved, ...times }: MadeTemplate,
    how: { readonly isFirst?: boolean } = {},
  ): Promise<SavedGuest> {
    this.#ready.set(key, saved);
    const { rootfs, network } = saved.manifest.options;
    const what = { template: key, rootfs: rootfs.name, hasNetwork: network !== undefined };
    this.#options.context.events.emit({ kind: 'template-made', ...what, ...how, ...times });
    this.#checksums.add(saved);
    this.#failedAt.delete(key);
    this.#uses.delete(key);
    const replaced = booted && this.#ready.get(booted.key);
    if (replaced !== undefined)
      void this.#discard(replaced).catch((err) =>
        this.#options.log.warn({ err }, 'cannot remove a template that was replaced'),
      );
    await this.#evict(saved);
    return saved;
  }

  #templateContext(): TemplateContext {
    const { context, diskBytes } = this.#options;
    const compatibility = context.engines.current.compatibility();
    return { compatibility, kernelDigest: context.system.kernel.digest, diskBytes };
  }

  /** Undefined when the engine cannot save guests that have no root file system. */
  async #agentRootfs(): Promise<RootfsSource | undefined> {
    const { engines, system } = this.#options.context;
    const { agentRootfs } = system;
    if (engines.current.takesOtherDisks !== true || agentRootfs === undefined) return undefined;
    try {
      return await agentRootfs();
    } catch (err) {
      this.#options.log.warn({ err }, 'agent image unavailable; each root filesystem gets its own template');
      return undefined;
    }
  }

  /**
   * Returns whether a create should cold-boot after its copy of `saved` failed. Discards a bad template, so that the
   * next create makes it again.
   */
  copyFailed(saved: SavedGuest, error: unknown): boolean {
    const { isBad, isWorthBooting } = this.trust.copyFailed(saved, error);
    if (!isBad) return isWorthBooting;
    const { log } = this.#options;
    log.warn({ err: error, dir: saved.dir }, 'template unusable, discarding it');
    this.#discard(saved).catch((err) => log.warn({ err }, 'cannot remove an unusable template'));
    return isWorthBooting;
  }

  async #discard(saved: SavedGuest): Promise<void> {
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
  async #evict(spare?: SavedGuest): Promise<void> {
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

/** Stores a value for a key. Clients choose the sizes in keys, so the oldest key is dropped above the limit. */
function remember(map: Map<string, number>, key: string, value: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > MAX_REMEMBERED && oldest !== undefined) map.delete(oldest);
}
