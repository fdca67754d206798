// Makes templates: of a guest that a create has just booted, or, behind everything else, of one that is started for it.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { baseEnvironment } from '../images/index.ts';
import { enqueue } from '../lib/concurrency-limit.ts';
import { AppError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Admission, Need } from './admission.ts';
import { startSandbox } from './create.ts';
import { isServiceFailure, READY_TIMEOUT_MS, startReadyService } from './ready-service.ts';
import { makeIdentity } from './resources/agent.ts';
import type { BootedTemplate, ResourceContext, StartContext } from './resources/resource.ts';
import { saveAndDestroy } from './save-sandbox.ts';
import { saveGuest } from './saved/save.ts';
import { publishSaved, removeSaved, SavedGuest, templatesRoot, unfinishedDir } from './saved/saved-guest.ts';
import type { ReadyService, TemplateCandidate } from './template-choice.ts';
import { warm } from './warm.ts';

export type OwnedCandidate = TemplateCandidate & { readonly owner?: string | undefined };

export type TemplateMakerOptions = {
  readonly context: ResourceContext;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  /** Reserves memory and disk space until disposed; rejects when there is not enough. */
  readonly reserve: Admission['reserve'];
  /** Resolves when no earlier template with this key is left. */
  readonly removed: (key: string) => Promise<void>;
  readonly log: Logger;
  /** Fires when the daemon stops. */
  readonly signal: AbortSignal;
};

export type MadeTemplate = {
  readonly saved: SavedGuest;
  readonly totalMs: number;
  /** How long its guest was paused for the save. */
  readonly pausedMs: number;
};

/** Space for two layers of a new guest: its own and the saved copy. */
const LAYER_BYTES = 32 * 2 ** 20;
/** A template is started in the background when no sandbox was started for this long, */
const QUIET_MS = 1000;
const QUIET_SAMPLE_MS = 100;
/** or after this time on a host that starts them all the time. */
const MAX_QUIET_WAIT_MS = 30_000;
/** Times the usual limits, because its VMM has low priority. */
const BACKGROUND_PATIENCE = 5;

export class TemplateMaker {
  readonly #options: TemplateMakerOptions;
  /** One at a time: no client waits for them. */
  readonly #background = new PQueue({ concurrency: 1 });
  #making: { readonly abort: AbortController; readonly ended: Promise<unknown> } | undefined;

  constructor(options: TemplateMakerOptions) {
    this.#options = options;
  }

  /** Cold-boots the template's guest, or starts a copy of template `from` that enters its root file system. */
  inBackground(candidate: OwnedCandidate, from?: SavedGuest): Promise<MadeTemplate> {
    const make = async (): Promise<MadeTemplate> => {
      await this.#quiet();
      const abort = new AbortController();
      const made = this.#make(candidate, from, AbortSignal.any([this.#options.signal, abort.signal]));
      this.#making = { abort, ended: made.catch(() => undefined) };
      return made.finally(() => {
        this.#making = undefined;
      });
    };
    return enqueue(this.#background, make, this.#options.signal);
  }

  /** Cancels the one that is being made; resolves when nothing of it is left. Undefined if there is none. */
  giveWay(): Promise<void> | undefined {
    if (this.#making === undefined) return undefined;
    const { abort, ended } = this.#making;
    abort.abort(new AppError('cancelled', 'a sandbox needs its memory'));
    return ended.then(() => undefined);
  }

  /**
   * Saves a booted guest that no client has used, and that goes on. `onWritten`: from now on it can be used; the rest
   * waits for this. Its temporary identity gives the template nothing that the guest itself will have, above all no
   * entropy.
   */
  async ofBooted(
    candidate: OwnedCandidate,
    { handles: { vm, guest, network }, paths, engine }: StartContext,
    signal: AbortSignal,
    onWritten: () => Promise<void>,
  ): Promise<MadeTemplate> {
    if (vm === undefined || guest === undefined) throw new Error('the guest is not there yet');
    const { context } = this.#options;
    const { options, owner, ready } = candidate;
    // The memory of its guest is that of a create.
    return this.#fill(candidate, { memoryMib: [], areCopies: false }, async (dir) => {
      context.faults.reach('template.booted');
      // Copies do the same next, so they have it compiled.
      await guest.setIdentity(makeIdentity(newId('sbx'), network), signal);
      if (ready !== undefined) await startReadyService(guest, ready, baseEnvironment(options.rootfs), signal);
      const manifest = {
        compatibility: engine.compatibility(),
        kernelDigest: context.system.kernel.digest,
        options,
        ...(owner !== undefined && { owner }),
        ...(ready && { service: ready.hash }),
      };
      return saveGuest({ dir, vm, guest, layerPath: paths.layerPath, manifest, onWritten });
    });
  }

  /** Waits until creates and forks leave the host alone. */
  async #quiet(): Promise<void> {
    const { startQueue, signal } = this.#options;
    const begunAt = performance.now();
    let busyAt = begunAt;
    for (let now = begunAt; now - busyAt < QUIET_MS && now - begunAt < MAX_QUIET_WAIT_MS; ) {
      await sleep(QUIET_SAMPLE_MS, undefined, { signal });
      now = performance.now();
      if (startQueue.size + startQueue.pending > 0) busyAt = now;
    }
  }

  #make(candidate: OwnedCandidate, from: SavedGuest | undefined, signal: AbortSignal): Promise<MadeTemplate> {
    const { options, owner, key, ready } = candidate;
    const { log } = this.#options;
    const { settings, ...rest } = this.#options.context;
    const timeoutMs = settings.bootTimeoutMs * BACKGROUND_PATIENCE;
    const context = { ...rest, settings: { ...settings, bootTimeoutMs: timeoutMs } };
    const memory = { memoryMib: [options.memoryMib], areCopies: from !== undefined };
    return this.#fill(candidate, memory, async (dir) => {
      await using undo = new AsyncDisposableStack();
      const id = newId('sbx');
      const start = {
        ...{ id, options, log: log.child({ template: key, sandbox: id }) },
        ...{ isBackground: true, signal },
      };
      const memoryPath = join(dir, 'memory');
      const sandbox = await (from === undefined
        ? startSandbox(context, { ...start, origin: { kind: 'boot', memoryPath } })
        : from.use(() => startSandbox(context, { ...start, origin: { kind: 'saved', saved: from } })));
      undo.defer(() => sandbox.remove());
      context.faults.reach('template.booted');
      if (from === undefined && ready !== undefined) {
        const readyMs = READY_TIMEOUT_MS * BACKGROUND_PATIENCE;
        await startReadyService(sandbox.awake.guest, ready, baseEnvironment(options.rootfs), signal, readyMs);
      }
      await warm(sandbox, { timeoutMs, hasRoot: options.rootfs.kind !== 'agent', signal });
      const service = from === undefined ? ready?.hash : from.manifest.service;
      return await saveAndDestroy(context, sandbox, { dir, options, owner, signal, service });
    });
  }

  /** Has `save` write the template into a temporary directory, and publishes that. */
  async #fill(
    { key, options }: OwnedCandidate,
    memory: Pick<Need, 'memoryMib' | 'areCopies'>,
    save: (dir: string) => Promise<{ readonly pausedMs: number }>,
  ): Promise<MadeTemplate> {
    const { context } = this.#options;
    const startedAt = performance.now();
    const root = templatesRoot(context.directories.dataDir);
    const diskBytes = options.memoryMib * 2 ** 20 + LAYER_BYTES;
    using _reservation = await this.#options.reserve({ ...memory, diskBytes, isTemplate: true });
    const temporary = unfinishedDir(root, key);
    await removeSaved(temporary);
    await mkdir(temporary, { recursive: true, mode: 0o700 });
    await using undo = new AsyncDisposableStack();
    undo.defer(() => removeSaved(temporary));
    const { pausedMs } = await save(temporary);
    context.faults.reach('template.saved');
    await this.#options.removed(key);
    await publishSaved(temporary, join(root, key));
    context.faults.reach('template.published');
    const { manifest } = await SavedGuest.open(join(root, key));
    return {
      saved: new SavedGuest(join(root, key), manifest, true),
      totalMs: Math.round(performance.now() - startedAt),
      pausedMs: Math.round(pausedMs),
    };
  }
}

type OwnBootOptions = {
  /** Size of the guest's layer when it is saved. */
  readonly diskBytes: number;
  /** Is made to run before the guest is saved. */
  readonly ready?: ReadyService;
  /** The signal of the create. */
  readonly signal: AbortSignal;
  /** Saves the guest; calls `onWritten` when it can be used, and does the rest when that has resolved. */
  readonly save: (
    start: StartContext,
    signal: AbortSignal,
    onWritten: () => Promise<void>,
  ) => Promise<SavedGuest>;
};

export class OwnBoot implements BootedTemplate {
  readonly #options: OwnBootOptions;
  readonly #result = Promise.withResolvers<SavedGuest>();
  readonly #ended = Promise.withResolvers<void>();
  #hasBegun = false;
  hasFailed = false;

  constructor(options: OwnBootOptions) {
    this.#options = options;
    this.#result.promise.catch(() => {
      this.hasFailed = true;
    });
  }

  get diskBytes(): number {
    return this.#options.diskBytes;
  }

  get extraMs(): number {
    return this.#options.ready === undefined ? 0 : READY_TIMEOUT_MS;
  }

  get hasService(): boolean {
    return this.#options.ready !== undefined && this.#hasBegun && !this.hasFailed;
  }

  /** Rejects if there will be none. */
  get made(): Promise<SavedGuest> {
    return this.#result.promise;
  }

  /** It failed because the create was cancelled, which says nothing about another create. */
  get isCancelled(): boolean {
    return this.#options.signal.aborted;
  }

  async save(start: StartContext, signal: AbortSignal): Promise<void> {
    this.#hasBegun = true;
    await new Promise<void>((resolve, reject) => {
      const onWritten = (): Promise<void> => {
        resolve();
        // A client waits for the create, which a flush would slow down.
        return this.#ended.promise;
      };
      this.#result.resolve(this.#options.save(start, signal, onWritten));
      this.#result.promise.catch((error) => (isServiceFailure(error) ? reject(error) : resolve()));
    });
  }

  createEnded(failure?: unknown): void {
    if (!this.#hasBegun) this.#result.reject(failure ?? new Error('its guest was not saved'));
    this.#ended.resolve();
  }
}
