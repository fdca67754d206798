// All sandboxes of this daemon.
import type { Logger } from 'pino';
import type { ExecEvents, ExecSession } from '../guest/exec-types.ts';
import type { ByteSource, PulledFile, PushResult } from '../guest/files.ts';
import type { Profiles } from '../images/profiles.ts';
import { AppError, toError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import { Semaphore } from '../lib/serial-queue.ts';
import { assertDiskSpace, assertSlot } from './capacity.ts';
import { type CreateContext, createSandbox } from './create.ts';
import { removeSandboxDirs } from './paths.ts';
import { resolveSandboxOptions } from './resolve-options.ts';
import type { Sandbox } from './sandbox.ts';
import type { ExecRequest, Sandboxes } from './sandboxes.ts';
import { sweepLeftovers } from './sweep.ts';
import type { CreateSandboxOptions, SandboxDefaults, SandboxInfo, SandboxLimits } from './types.ts';

export type SandboxManagerOptions = CreateContext & {
  readonly profiles: Profiles;
  readonly defaults: SandboxDefaults;
  readonly limits: SandboxLimits;
  /** Boots at the same time; more would only make each slower. */
  readonly maxConcurrentBoots: number;
  readonly log: Logger;
};

export class SandboxManager implements Sandboxes {
  readonly #options: SandboxManagerOptions;
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #creating = new Set<Promise<unknown>>();
  readonly #boots: Semaphore;
  readonly #stopping = new AbortController();

  constructor(options: SandboxManagerOptions) {
    this.#options = options;
    this.#boots = new Semaphore(options.maxConcurrentBoots);
  }

  /** Brings directories and registry in line with what runs. Must be called once, before anything else. */
  async start(): Promise<void> {
    const { directories, records, log } = this.#options;
    await sweepLeftovers(directories, records, log);
  }

  async create(options: CreateSandboxOptions, signal?: AbortSignal): Promise<SandboxInfo> {
    const creating = this.#create(options, signal);
    this.#creating.add(creating);
    try {
      const sandbox = await creating;
      this.#sandboxes.set(sandbox.id, sandbox);
      sandbox.startLifetime(() => this.#expire(sandbox));
      return sandbox.info;
    } finally {
      this.#creating.delete(creating);
    }
  }

  list(): SandboxInfo[] {
    return [...this.#sandboxes.values()]
      .map(({ info }) => info)
      .sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  }

  get(id: string): SandboxInfo {
    return this.#find(id).info;
  }

  async delete(id: string): Promise<void> {
    const sandbox = this.#find(id);
    await sandbox.delete(async () => {
      await removeSandboxDirs(sandbox.paths);
      await this.#options.records.remove(id);
    });
    if (this.#sandboxes.delete(id)) this.#options.log.info({ sandbox: id }, 'sandbox deleted');
  }

  exec(id: string, request: ExecRequest, events: ExecEvents): ExecSession {
    return this.#find(id).exec(request, events);
  }

  async pushFiles(id: string, path: string, read: ByteSource, signal?: AbortSignal): Promise<PushResult> {
    return this.#find(id).pushFiles(path, read, signal);
  }

  async pullFile(id: string, path: string, maxBytes: number, signal?: AbortSignal): Promise<PulledFile> {
    return this.#find(id).pullFile(path, maxBytes, signal);
  }

  async pullDirectory(id: string, path: string, signal?: AbortSignal): Promise<PulledFile> {
    return this.#find(id).pullDirectory(path, signal);
  }

  /** The sandbox itself, for rooms above that need more than this face. AppError not_found. */
  find(id: string): Sandbox {
    return this.#find(id);
  }

  /** Refuses new sandboxes, cancels those being made, deletes the rest. Rejects when one could not be deleted. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await Promise.allSettled(this.#creating);
    const ends = await Promise.allSettled([...this.#sandboxes.keys()].map((id) => this.delete(id)));
    const failure = ends.find((end) => end.status === 'rejected');
    if (failure !== undefined) throw toError(failure.reason);
  }

  async #create(options: CreateSandboxOptions, outer?: AbortSignal): Promise<Sandbox> {
    const { profiles, defaults, limits, directories } = this.#options;
    const signal =
      outer === undefined ? this.#stopping.signal : AbortSignal.any([outer, this.#stopping.signal]);
    signal.throwIfAborted();
    const resolved = resolveSandboxOptions(options, defaults, limits);
    const profile = await profiles.get(resolved.profile);
    // This create counts itself among those under way.
    assertSlot(this.#sandboxes.size + this.#creating.size - 1, limits.sandboxes);
    await assertDiskSpace(directories.dataDir);
    const id = newId('sbx');
    const log = this.#options.log.child({ sandbox: id });
    return this.#boots.run(
      () => createSandbox(this.#options, { id, options: resolved, profile, log, signal }),
      signal,
    );
  }

  #find(id: string): Sandbox {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox !== undefined && sandbox.state !== 'deleted') return sandbox;
    throw new AppError('not_found', `sandbox ${id} does not exist`);
  }

  #expire(sandbox: Sandbox): void {
    const { log } = this.#options;
    log.info(
      { sandbox: sandbox.id, timeoutS: sandbox.record.options.timeoutS },
      'the lifetime of a sandbox is over',
    );
    this.delete(sandbox.id).catch((err) =>
      log.error({ err, sandbox: sandbox.id }, 'cannot delete an expired sandbox'),
    );
  }
}
