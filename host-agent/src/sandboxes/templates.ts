// Templates: booted, idle guests that creates copy. They are made on demand and evicted (LRU) within a disk budget.
import { mkdir, stat, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { FirstStartError } from '../engines/choice.ts';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { enqueue } from '../lib/enqueue.ts';
import { AppError, toError } from '../lib/errors.ts';
import { allocatedBytes } from '../lib/extents.ts';
import { chooseEvicted } from '../lib/fair-share.ts';
import { newId } from '../lib/ids.ts';
import { raceSignal } from '../lib/wait.ts';
import type { ResourceContext } from './resources/resource.ts';
import { saveAndDestroy } from './save-sandbox.ts';
import {
  Checksums,
  publishSaved,
  removeSaved,
  SavedGuest,
  sweepSaved,
  templatesRoot,
  unfinishedDir,
} from './saved/saved-guest.ts';
import { startSandbox } from './start.ts';
import {
  type TemplateCandidate,
  type TemplateContext,
  TemplateTrust,
  templatesInRoot,
  templateWithoutRoot,
} from './template-choice.ts';
import type { ResolvedSandboxOptions } from './types.ts';
import { warm } from './warm.ts';

export type TemplatesOptions = {
  readonly context: ResourceContext;
  /** Disk budget of all templates together; the least recently used are evicted first. 0 turns templates off. */
  readonly budgetBytes: number;
  /** Layer size of templates; smaller requests get templates of their own size. */
  readonly diskBytes: number;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  /** Reserves disk space until disposed; rejects when there is not enough. */
  readonly reserveDisk: (bytes: number) => Promise<Disposable>;
  readonly log: Logger;
};

/** Space for two layers of a new guest: its own and the saved copy. */
const LAYER_BYTES = 32 * 2 ** 20;
/** After this many creates from a less specific template, the most specific one is made. */
const USES_BEFORE_SPECIFIC = 2;
/** After a failure to make a template, it is not tried again for this long. */
const RETRY_MS = 60_000;

/** Maximum number of template keys whose uses or failures are remembered. */
const MAX_REMEMBERED = 1024;

type OwnedCandidate = TemplateCandidate & { readonly owner?: string | undefined };

export class Templates {
  readonly #options: TemplatesOptions;
  readonly #ready = new Map<string, SavedGuest>();
  readonly #pending = new Map<string, Promise<SavedGuest>>();
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
    this.#checksums = new Checksums(options.log);
  }

  /** Opens the templates that match this daemon's engine, kernel and agent, and removes the others. */
  async start(): Promise<void> {
    const { context, log } = this.#options;
    const root = templatesRoot(context.directories.dataDir);
    for (const key of await sweepSaved(root, () => true)) {
      try {
        const saved = await SavedGuest.open(join(root, key));
        const reason = saved.incompatibility(context.engines.current.compatibility());
        if (reason !== undefined) throw new Error(reason);
        if (saved.manifest.kernelDigest !== context.kernel.digest)
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
    await Promise.allSettled(this.#pending.values());
    await this.#checksums.stop();
  }

  /**
   * Returns the template for a create, and makes it if it does not exist; concurrent callers share one build.
   * Undefined when the create must cold-boot: templates are off, it has boot arguments, or the template could not be
   * made. Throws FirstStartError as `bootOrReplaceEngine` does.
   */
  async obtain(
    options: ResolvedSandboxOptions,
    signal: AbortSignal,
    owner?: string,
  ): Promise<SavedGuest | undefined> {
    if (this.#options.budgetBytes === 0 || options.bootArgs !== '') return undefined;
    const agent = await this.#agentRootfs();
    const context = this.#templateContext();
    const inRoot = templatesInRoot(options, agent?.agentPath, context);
    const candidates =
      agent === undefined ? inRoot : [...inRoot, templateWithoutRoot(options, agent, context)];
    const ready = candidates.find(({ key }) => this.#ready.has(key));
    // The least specific template serves the most creates, so a create that must wait for a boot waits for that one.
    const candidate = ready ?? candidates.at(-1);
    const template = candidate && (await this.#ensure({ ...candidate, owner }, signal));
    if (template !== undefined && template.manifest.owner !== owner) this.#shared.add(template);
    this.lookups[template === undefined ? 'none' : ready === undefined ? 'made' : 'hit'] += 1;
    return template;
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
    if (uses < USES_BEFORE_SPECIFIC || this.#pending.has(key) || this.#hasFailed(key)) return;
    this.#startMaking({ ...nearest, owner }, saved).catch((error) => {
      if (this.#stopping.signal.aborted) return;
      this.#options.log.warn(
        { template: key, err: toError(error) },
        'cannot make a template for a root filesystem',
      );
      remember(this.#failedAt, key, performance.now());
    });
  }

  /** Returns the template, and makes it if it does not exist. Undefined when it could not be made. */
  async #ensure(candidate: OwnedCandidate, signal: AbortSignal): Promise<SavedGuest | undefined> {
    const { key } = candidate;
    const ready = this.#ready.get(key);
    if (ready !== undefined) {
      await this.#touch(ready);
      return ready;
    }
    if (this.#hasFailed(key)) return undefined;
    try {
      return await raceSignal(this.#pending.get(key) ?? this.#startMaking(candidate), signal);
    } catch (error) {
      signal.throwIfAborted();
      // If the guest cannot boot as a template, it cannot cold-boot either.
      if (error instanceof FirstStartError) throw error;
      this.#options.log.warn({ template: key, err: toError(error) }, 'cannot make a template, cold-booting');
      remember(this.#failedAt, key, performance.now());
      return undefined;
    }
  }

  #hasFailed(key: string): boolean {
    return performance.now() - (this.#failedAt.get(key) ?? Number.NEGATIVE_INFINITY) < RETRY_MS;
  }

  #startMaking(candidate: OwnedCandidate, from?: SavedGuest): Promise<SavedGuest> {
    const made = this.#make(candidate, from).finally(() => this.#pending.delete(candidate.key));
    this.#pending.set(candidate.key, made);
    return made;
  }

  #templateContext(): TemplateContext {
    const { context, diskBytes } = this.#options;
    const compatibility = context.engines.current.compatibility();
    return { compatibility, kernelDigest: context.kernel.digest, diskBytes };
  }

  /** Undefined when the engine cannot save guests that have no root file system. */
  async #agentRootfs(): Promise<RootfsSource | undefined> {
    const { engines, agentRootfs } = this.#options.context;
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

  /** Cold-boots the template's guest, or starts a copy of template `from` that enters its root file system. */
  async #make({ key, options, owner }: OwnedCandidate, from?: SavedGuest): Promise<SavedGuest> {
    const { context, log } = this.#options;
    const { faults } = context;
    const { signal } = this.#stopping;
    const startedAt = performance.now();
    const root = templatesRoot(context.directories.dataDir);
    using _reservation = await this.#options.reserveDisk(options.memoryMib * 2 ** 20 + LAYER_BYTES);
    const temporary = unfinishedDir(root, key);
    await removeSaved(temporary);
    await mkdir(temporary, { recursive: true, mode: 0o700 });
    await using undo = new AsyncDisposableStack();
    undo.defer(() => removeSaved(temporary));
    const id = newId('sbx');
    const start = { id, options, log: log.child({ template: key, sandbox: id }), signal };
    const memoryPath = join(temporary, 'memory');
    const boot = () => startSandbox(context, { ...start, origin: { kind: 'boot', memoryPath } });
    const copy = (saved: SavedGuest) =>
      saved.use(() => startSandbox(context, { ...start, origin: { kind: 'saved', saved } }));
    const startGuest = () =>
      from === undefined ? context.engines.bootOrReplaceEngine(boot, signal) : copy(from);
    const sandbox = await enqueue(this.#options.startQueue, startGuest, signal);
    undo.defer(() => sandbox.remove());
    faults.reach('template.booted');
    const isAwaited = from === undefined;
    await warm(sandbox, { timeoutMs: context.bootTimeoutMs, isAwaited, signal });
    const { pausedMs } = await saveAndDestroy(context, sandbox, { dir: temporary, options, owner, signal });
    faults.reach('template.saved');
    await this.#removals.get(key)?.catch(() => undefined);
    await publishSaved(temporary, join(root, key));
    faults.reach('template.published');
    const saved = new SavedGuest(join(root, key), (await SavedGuest.open(join(root, key))).manifest, true);
    this.#ready.set(key, saved);
    this.#checksums.add(saved);
    this.#failedAt.delete(key);
    this.#uses.delete(key);
    const totalMs = Math.round(performance.now() - startedAt);
    const rootfs = options.rootfs.name;
    context.events.emit({
      kind: 'template-made',
      template: key,
      rootfs,
      hasNetwork: options.network !== undefined,
      totalMs,
      pausedMs: Math.round(pausedMs),
    });
    await this.#evict(saved);
    return saved;
  }

  async #touch(saved: SavedGuest): Promise<void> {
    const now = new Date();
    await utimes(saved.dir, now, now).catch(() => undefined);
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

/** Size on disk without the pinned root file systems, which exist anyway. */
async function savedBytes({ dir, manifest }: SavedGuest): Promise<number> {
  const files = Object.values(manifest.files);
  const sizes = await Promise.all(files.map(({ name }) => allocatedBytes(join(dir, name)).catch(() => 0)));
  return sizes.reduce((sum, size) => sum + size, 0);
}
