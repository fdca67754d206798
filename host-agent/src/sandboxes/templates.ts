// Templates: booted, idle guests that creates copy. They are made on demand.
import { basename } from 'node:path';
import type PQueue from 'p-queue';
import { FirstStartError } from '../engines/choice.ts';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { AppError, toError } from '../lib/errors.ts';
import { raceSignal } from '../lib/wait.ts';
import type { Admission } from './admission.ts';
import { SavedGuest } from './saved/saved-guest.ts';
import {
  type TemplateContext,
  TemplateTrust,
  templatesInRoot,
  templateWithoutRoot,
} from './template-choice.ts';
import { type MadeTemplate, OwnBoot, type OwnedCandidate, TemplateMaker } from './template-making.ts';
import { TemplateStore, type TemplateStoreOptions } from './template-store.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type TemplatesOptions = TemplateStoreOptions & {
  /** Layer size of templates; smaller requests get templates of their own size. */
  readonly diskBytes: number;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  /** Reserves memory and disk space until disposed; rejects when there is not enough. */
  readonly reserve: Admission['reserve'];
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
  readonly #store: TemplateStore;
  /** Templates that are made in the background. */
  readonly #pending = new Map<string, Promise<SavedGuest>>();
  /** Those that creates make of the guests that they boot. */
  readonly #booting = new Map<string, OwnBoot>();
  readonly #maker: TemplateMaker;
  /** Creates wait for it; they come after the choice of an engine, with which it begins. */
  #opening: Promise<void> = Promise.resolve();
  readonly #failedAt = new Map<string, number>();
  readonly #stopping = new AbortController();
  readonly #uses = new Map<string, number>();
  readonly trust = new TemplateTrust();
  /** Counts creates that may use a template, by the result of the lookup. */
  readonly lookups = { hit: 0, made: 0, none: 0 };

  constructor(options: TemplatesOptions) {
    this.#options = options;
    this.#store = new TemplateStore(options);
    this.#maker = new TemplateMaker({
      ...options,
      removed: (key) => this.#store.removed(key),
      signal: this.#stopping.signal,
    });
  }

  /**
   * Opens the templates of an earlier daemon; while no engine is chosen, as soon as one is, and after an upgrade, as
   * soon as the new agent's image is made. Creates wait for that.
   */
  async start(): Promise<void> {
    const { signal } = this.#stopping;
    const { engines, system } = this.#options.context;
    engines.onceChosen(() => {
      this.#opening = this.#store.open(() => raceSignal(this.#agentRootfs(), signal));
      this.#opening.catch((err) => {
        if (!signal.aborted) this.#options.log.error({ err }, 'cannot open the templates');
      });
    });
    if (engines.ifChosen === undefined) return;
    const { agentImageBegun } = system;
    await (agentImageBegun === undefined ? this.#opening : Promise.race([this.#opening, agentImageBegun]));
  }

  /** Cancels the templates that are being made, and waits until they are undone. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await Promise.allSettled([
      this.#opening,
      ...this.#pending.values(),
      ...[...this.#booting.values()].map(({ made }) => made),
    ]);
    await this.#store.stop();
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
    await raceSignal(this.#opening, signal);
    const agent = await raceSignal(this.#agentRootfs(), signal);
    const context = this.#templateContext();
    const inRoot = templatesInRoot(options, agent?.agentPath, context);
    const [{ booted }] = inRoot;
    const candidates = [
      ...inRoot.flatMap((each) => [each, each.booted]),
      // In a generic one no service runs, and its start takes longer than a boot.
      ...(agent === undefined || booted.ready ? [] : [templateWithoutRoot(options, agent, context)]),
    ];
    for (;;) {
      const ready = candidates.map(({ key }) => this.#store.get(key)).find((saved) => saved !== undefined);
      if (ready !== undefined) {
        this.lookups.hit += 1;
        return this.#store.use(ready, owner);
      }
      const other = this.#booting.get(booted.key);
      const coming = other?.made ?? (booted.ready && this.#pending.get(booted.key));
      if (coming === undefined) break;
      const made = await raceSignal(coming, signal).catch((error: unknown) => error);
      signal.throwIfAborted();
      if (made instanceof SavedGuest) {
        this.lookups.made += 1;
        return this.#store.use(made, owner);
      }
      // The guest of this create would not boot on that engine either.
      if (made instanceof FirstStartError) throw made;
      if (other?.isCancelled !== true) break;
    }
    if (!this.#hasFailed(booted.key)) return this.#startOwn({ ...booted, owner }, signal);
    this.lookups.none += 1;
    return undefined;
  }

  #startOwn(candidate: OwnedCandidate, signal: AbortSignal): OwnBoot {
    const { key, options, ready } = candidate;
    const own = new OwnBoot({
      diskBytes: options.diskBytes,
      signal,
      ...(ready && { ready }),
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
        if (own.isCancelled) {
          // Its start may take longer than clients wait, so that each of them would leave without a template.
          if (ready !== undefined && !this.#stopping.signal.aborted) this.#startMaking(candidate);
          return;
        }
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
    return this.#store.count;
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
    if (this.#store.get(key) !== undefined || basename(saved.dir) === key) return;
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
    if (this.#store.get(key) !== undefined || this.#pending.has(key) || this.#hasFailed(key)) return;
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
    this.#store.add(key, saved);
    const { rootfs, network } = saved.manifest.options;
    const what = { template: key, rootfs: rootfs.name, hasNetwork: network !== undefined };
    this.#options.context.events.emit({ kind: 'template-made', ...what, ...how, ...times });
    this.#failedAt.delete(key);
    this.#uses.delete(key);
    const replaced = booted && this.#store.get(booted.key);
    if (replaced !== undefined)
      void this.#store
        .discard(replaced)
        .catch((err) => this.#options.log.warn({ err }, 'cannot remove a template that was replaced'));
    await this.#store.evict(saved);
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
    this.#store.discard(saved).catch((err) => log.warn({ err }, 'cannot remove an unusable template'));
    return isWorthBooting;
  }
}

/** Stores a value for a key. Clients choose the sizes in keys, so the oldest key is dropped above the limit. */
function remember(map: Map<string, number>, key: string, value: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > MAX_REMEMBERED && oldest !== undefined) map.delete(oldest);
}
