// Booted, idle guests that creates are copies of, made on demand and kept within a disk budget.
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
import { saveAndDestroy } from './save-and-destroy.ts';
import { Checksums } from './saved/checksums.ts';
import { sweepSaved, templatesRoot, unfinished } from './saved/layout.ts';
import { publishSaved, removeSaved, SavedGuest } from './saved/saved-guest.ts';
import { startSandbox } from './start.ts';
import {
  type TemplateCandidate,
  type TemplateContext,
  templatesInRoot,
  templateWithoutRoot,
} from './template-choice.ts';
import { TemplateTrust } from './template-trust.ts';
import type { ResolvedSandboxOptions } from './types.ts';
import { warm } from './warm.ts';

export type TemplatesOptions = {
  readonly context: ResourceContext;
  /** Disk that all templates together may take; least recently used ones go first. 0 turns templates off. */
  readonly budgetBytes: number;
  /** Layer size of templates; smaller requests get templates of their own size. */
  readonly diskBytes: number;
  /** Starts at the same time, of everybody's. */
  readonly startQueue: PQueue;
  /** Holds disk until disposed; rejects when there is not enough. */
  readonly reserveDisk: (bytes: number) => Promise<Disposable>;
  readonly log: Logger;
};

/** What the layer of a new guest takes, twice: its own and the saved one. */
const LAYER_BYTES = 32 * 2 ** 20;
/** So many creates are copies of a template that is not the nearest to them, before that one is made. */
const USES_OF_OWN = 2;
/** A template that could not be made is not tried again for this long. */
const RETRY_MS = 60_000;

/** Names of templates that are counted, or could not be made. */
const MAX_REMEMBERED = 1024;

type Ordered = TemplateCandidate & { readonly owner?: string | undefined };

export class Templates {
  readonly #options: TemplatesOptions;
  readonly #ready = new Map<string, SavedGuest>();
  readonly #making = new Map<string, Promise<SavedGuest>>();
  readonly #failedAt = new Map<string, number>();
  /** Being removed, perhaps once their last users are done: until then their directories are taken. */
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #uses = new Map<string, number>();
  /** Those that several have used: nobody's share. */
  readonly #common = new WeakSet<SavedGuest>();
  readonly #checksums: Checksums;
  readonly trust = new TemplateTrust();
  /** What creates that could have one found. */
  readonly lookups = { hit: 0, made: 0, none: 0 };

  constructor(options: TemplatesOptions) {
    this.#options = options;
    this.#checksums = new Checksums(options.log);
  }

  /** Opens the templates that still fit this daemon's engine and kernel, and removes the others. */
  async start(): Promise<void> {
    const { context, log } = this.#options;
    const root = templatesRoot(context.directories.dataDir);
    for (const key of await sweepSaved(root, () => true)) {
      try {
        const saved = await SavedGuest.open(join(root, key));
        const why = saved.incompatibility(context.engines.current.compatibility());
        if (why !== undefined) throw new Error(why);
        if (saved.manifest.kernelDigest !== context.kernel.digest)
          throw new Error('it was made with another kernel');
        const agent = await this.#agentRootfs();
        if (agent !== undefined && saved.manifest.options.rootfs.agentPath !== agent.agentPath)
          throw new Error('it was made with another agent');
        this.#ready.set(key, saved);
        this.#checksums.add(saved);
      } catch (error) {
        log.info({ template: key, reason: toError(error).message }, 'removed a template');
        await removeSaved(join(root, key));
      }
    }
    await this.#evict();
  }

  /** Cancels what is being made. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await Promise.allSettled(this.#making.values());
    await this.#checksums.stop();
  }

  /**
   * The template for a create, made first if there is none yet; callers that want the same one wait for it together.
   * Undefined when such a create has to boot: templates are off, it has boot arguments, or none could be made.
   * FirstStartError as `bootOrReplaceEngine` has it.
   */
  async obtain(
    options: ResolvedSandboxOptions,
    signal: AbortSignal,
    owner?: string,
  ): Promise<SavedGuest | undefined> {
    if (this.#options.budgetBytes === 0 || options.bootArgs !== '') return undefined;
    const agent = await this.#agentRootfs();
    const context = this.#ground();
    const inRoot = templatesInRoot(options, agent?.agentPath, context);
    const fitting = agent === undefined ? inRoot : [...inRoot, templateWithoutRoot(options, agent, context)];
    const ready = fitting.find(({ key }) => this.#ready.has(key));
    // What is farthest is of use to most, and a create that waits for a boot waits for that.
    const candidate = ready ?? fitting.at(-1);
    const found = candidate && (await this.#ensure({ ...candidate, owner }, signal));
    if (found !== undefined && found.manifest.owner !== owner) this.#common.add(found);
    this.lookups[found === undefined ? 'none' : ready === undefined ? 'made' : 'hit'] += 1;
    return found;
  }

  get count(): number {
    return this.#ready.size;
  }

  /**
   * A copy of `saved` was made with these options. What is used again gets a template that is nearer to it, made of another
   * copy behind that answer: its copies need not enter their root any more, nor be given an interface.
   */
  worked(saved: SavedGuest, options: ResolvedSandboxOptions, owner?: string): void {
    this.trust.worked(saved);
    const { agentPath } = saved.manifest.options.rootfs;
    const [nearest] = templatesInRoot(options, agentPath, this.#ground());
    const { key } = nearest;
    if (this.#ready.has(key) || basename(saved.dir) === key) return;
    const uses = (this.#uses.get(key) ?? 0) + 1;
    remember(this.#uses, key, uses);
    if (uses < USES_OF_OWN || this.#making.has(key) || this.#hasFailed(key)) return;
    this.#begin({ ...nearest, owner }, saved).catch((error) => {
      if (this.#stopping.signal.aborted) return;
      this.#options.log.warn({ template: key, err: toError(error) }, 'a root filesystem gets no template');
      remember(this.#failedAt, key, performance.now());
    });
  }

  /** The template, made when there is none. */
  async #ensure(wanted: Ordered, signal: AbortSignal): Promise<SavedGuest | undefined> {
    const { key } = wanted;
    const ready = this.#ready.get(key);
    if (ready !== undefined) {
      await this.#touch(ready);
      return ready;
    }
    if (this.#hasFailed(key)) return undefined;
    try {
      return await raceSignal(this.#making.get(key) ?? this.#begin(wanted), signal);
    } catch (error) {
      signal.throwIfAborted();
      // What could not be booted as a template cannot be booted without one either.
      if (error instanceof FirstStartError) throw error;
      this.#options.log.warn(
        { template: key, err: toError(error) },
        'cannot make a template; booting instead',
      );
      remember(this.#failedAt, key, performance.now());
      return undefined;
    }
  }

  #hasFailed(key: string): boolean {
    return performance.now() - (this.#failedAt.get(key) ?? Number.NEGATIVE_INFINITY) < RETRY_MS;
  }

  #begin(wanted: Ordered, from?: SavedGuest): Promise<SavedGuest> {
    const making = this.#make(wanted, from).finally(() => this.#making.delete(wanted.key));
    this.#making.set(wanted.key, making);
    return making;
  }

  #ground(): TemplateContext {
    const { context, diskBytes } = this.#options;
    const compatibility = context.engines.current.compatibility();
    return { compatibility, kernelDigest: context.kernel.digest, diskBytes };
  }

  /** Undefined where guests cannot be saved before they have a root. */
  async #agentRootfs(): Promise<RootfsSource | undefined> {
    const { engines, agentRootfs } = this.#options.context;
    if (engines.current.takesOtherDisks !== true || agentRootfs === undefined) return undefined;
    try {
      return await agentRootfs();
    } catch (err) {
      this.#options.log.warn(
        { err },
        'no image of the agent; each root filesystem gets a template of its own',
      );
      return undefined;
    }
  }

  /** Whether the create whose copy of `saved` failed shall boot. Forgets a bad one, so that the next create makes it anew. */
  judge(saved: SavedGuest, error: unknown): boolean {
    const { isBad, isWorthBooting } = this.trust.failed(saved, error);
    if (!isBad) return isWorthBooting;
    const { log } = this.#options;
    log.warn({ err: error, dir: saved.dir }, 'a template is unusable');
    this.#discard(saved).catch((err) => log.warn({ err }, 'cannot remove an unusable template'));
    return isWorthBooting;
  }

  async #discard(saved: SavedGuest): Promise<void> {
    for (const [key, ready] of this.#ready) if (ready === saved) await this.#leave(key, saved);
  }

  async #leave(key: string, saved: SavedGuest): Promise<void> {
    this.#ready.delete(key);
    const removal = saved.remove().finally(() => this.#leaving.delete(key));
    this.#leaving.set(key, removal);
    await removal;
  }

  /** Boots its guest, or has one `from` another template that enters its root. */
  async #make({ key, options, owner }: Ordered, from?: SavedGuest): Promise<SavedGuest> {
    const { context, log } = this.#options;
    const { faults } = context;
    const { signal } = this.#stopping;
    const startedAt = performance.now();
    const root = templatesRoot(context.directories.dataDir);
    using _held = await this.#options.reserveDisk(options.memoryMib * 2 ** 20 + LAYER_BYTES);
    const temporary = unfinished(root, key);
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
    const begin = () => (from === undefined ? context.engines.bootOrReplaceEngine(boot, signal) : copy(from));
    const sandbox = await enqueue(this.#options.startQueue, begin, signal);
    undo.defer(() => sandbox.remove());
    faults.reach('template.booted');
    const isAwaited = from === undefined;
    await warm(sandbox, { timeoutMs: context.bootTimeoutMs, isAwaited, signal });
    const { pausedMs } = await saveAndDestroy(context, sandbox, { dir: temporary, options, owner, signal });
    faults.reach('template.saved');
    await this.#leaving.get(key)?.catch(() => undefined);
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

  /** Removes templates until all fit the budget: those of who has most, the least recently used first; `spare` stays. */
  async #evict(spare?: SavedGuest): Promise<void> {
    const entries = await Promise.all(
      [...this.#ready].map(async ([key, saved]) => {
        const [size, usedAtMs] = await Promise.all([
          savedBytes(saved),
          stat(saved.dir).then(({ mtimeMs }) => mtimeMs),
        ]);
        const owner = this.#common.has(saved) ? undefined : saved.manifest.owner;
        return { key, saved, owner, size, usedAtMs, isPinned: saved === spare };
      }),
    );
    for (const { key, saved, size } of chooseEvicted(entries, this.#options.budgetBytes)) {
      await this.#leave(key, saved);
      this.#options.context.events.emit({ kind: 'template-evicted', template: key, sizeBytes: size });
    }
  }
}

/** Sizes are whatever clients ask for: of those that there is no template of, the oldest is forgotten. */
function remember(of: Map<string, number>, key: string, value: number): void {
  of.delete(key);
  of.set(key, value);
  const [oldest] = of.keys();
  if (of.size > MAX_REMEMBERED && oldest !== undefined) of.delete(oldest);
}

/** Without the root filesystems that it keeps: they are there in any case. */
async function savedBytes({ dir, manifest }: SavedGuest): Promise<number> {
  const files = Object.values(manifest.files);
  const sizes = await Promise.all(files.map(({ name }) => allocatedBytes(join(dir, name)).catch(() => 0)));
  return sizes.reduce((sum, size) => sum + size, 0);
}
