// The agent's image, from which every guest runs. It is made in the background after the start, so that the first
// create finds it.
import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';
import { type AgentImage, ensureAgentImage, type ResolvedKernel } from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import { AppError, toError } from '../lib/errors.ts';

export type AgentImageMakerOptions = {
  readonly dataDir: string;
  readonly agentDir: string;
  readonly kernel: Pick<ResolvedKernel, 'modulesPath' | 'digest'>;
  readonly log: Logger;
};

export class AgentImageMaker {
  readonly #options: AgentImageMakerOptions;
  readonly #stopping = new AbortController();
  readonly #begun = Promise.withResolvers<void>();
  /** Its programs that run with low priority. */
  readonly #lowered = new Set<ChildProcess>();
  #isAwaited = false;
  #made: Promise<AgentImage> | undefined;

  constructor(options: AgentImageMakerOptions) {
    this.#options = options;
  }

  /** Makes it at the lowest priority. A failure is logged, and the next `get` tries again. */
  makeInBackground(): void {
    this.#make().catch((error: unknown) => {
      if (this.#stopping.signal.aborted) return;
      const { log } = this.#options;
      log.warn({ err: toError(error) }, "cannot make the agent's image; the next create tries again");
    });
  }

  /** Waits for it at ordinary priority. Rejects as `ensureAgentImage`. */
  async get(): Promise<AgentImage> {
    this.#isAwaited = true;
    for (const { pid } of this.#lowered) setPriorities(pid, getPriority());
    this.#lowered.clear();
    const made = this.#make();
    const image = await made;
    if (existsSync(image.path)) return image;
    // A daemon of another version that shares the directory took it for unused.
    if (this.#made === made) this.#made = undefined;
    return this.#make();
  }

  /** Resolves when it turns out that it has to be made, which takes seconds. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  /** Cancels it, and waits until nothing of it is left. */
  async stop(): Promise<void> {
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await this.#made?.catch(() => undefined);
  }

  /** Concurrent callers share one attempt. */
  #make(): Promise<AgentImage> {
    this.#made ??= this.#ensure().catch((error) => {
      this.#made = undefined;
      throw error;
    });
    return this.#made;
  }

  async #ensure(): Promise<AgentImage> {
    const { signal } = this.#stopping;
    signal.throwIfAborted();
    const { dataDir, agentDir, kernel } = this.#options;
    const onStart = (program: ChildProcess) => this.#lower(program);
    return await ensureAgentImage(dataDir, agentDir, kernel, { signal, onStart });
  }

  #lower(program: ChildProcess): void {
    this.#begun.resolve();
    if (this.#isAwaited) return;
    this.#lowered.add(program);
    program.once('exit', () => this.#lowered.delete(program));
    // The kernel derives the priority of its disk accesses from it, too.
    setPriorities(program.pid, constants.priority.PRIORITY_LOW);
  }
}

/** Of a process and its children. */
function setPriorities(pid: number | undefined, priority: number): void {
  if (pid === undefined) return;
  try {
    setPriority(pid, priority);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ');
    for (const child of children) if (child !== '') setPriority(Number(child), priority);
  } catch {
    // They have exited already, or may not be changed.
  }
}
