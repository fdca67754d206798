// The guest agent of one sandbox, as the host sees it: one connection that is re-established when it breaks, and calls
// over it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecRequest } from '@sandboxd/api';
import {
  type Channel,
  connectHost,
  type HelloReply,
  type IdentityInput,
  type RequestInput,
  type Result,
  SLEEP,
  type StatsResult,
  TRUST,
  type TrustInput,
  type WakeInput,
} from '@sandboxd/proto';
import type { Logger } from 'pino';
import { backOffMs } from '../lib/back-off.ts';
import { AppError, toError } from '../lib/errors.ts';
import { deadline } from '../lib/wait.ts';
import { badAnswer, causeOf, refusalOf, toCallError, unreachable } from './agent-errors.ts';
import { GuestClock, nowUs } from './clock.ts';
import { type CommandChannel, GuestCommands } from './commands.ts';
import { type ExecEvents, type ExecOptions, type ExecSession, startExec } from './exec.ts';
import { watchFiles } from './file-watch.ts';
import {
  callFiles,
  type FileCallOptions,
  type GuestFiles,
  pullDirectory,
  pullFile,
  pushFiles,
  readFile,
  writeFile,
} from './files.ts';
import { GuestHold } from './hold.ts';
import { assertCanTake, assertCanTrust, problemsOf } from './identity.ts';
import { GuestPorts } from './port-stream.ts';
import { GuestService } from './service.ts';

/** Opens connections to the agent; the engine's VM implements it. */
export interface ChannelSource {
  openChannel(signal?: AbortSignal): Promise<{
    readonly link: Parameters<typeof connectHost>[0];
    readonly needsResync: boolean;
  }>;
}

export type GuestOptions = {
  readonly source: ChannelSource;
  /** Identity of this instance of the guest's memory; a fork gets a new one. */
  readonly incarnation: string;
  readonly log: Logger;
  /** Why the channel may have broken, for example the VM's exit, which may be known a moment later. */
  readonly explainLoss?: () => Promise<string | undefined>;
};

const RECONNECT_TIMEOUT_MS = 10_000;
/** Exponential backoff for a guest that breaks its connections repeatedly. */
const RECONNECT_PAUSE_MS = 1000;
const MAX_RECONNECT_PAUSE_MS = 60_000;
/** A connection that lasted this long resets the backoff. */
const STABLE_MS = 60_000;
const CALL_TIMEOUT_MS = 30_000;

type ConnectOptions = {
  /** The guest may be in the middle of a frame. */
  readonly needsResync?: boolean;
  readonly incarnation?: string;
};

export class Guest {
  readonly #options: GuestOptions;
  #channel: Channel | undefined;
  #lastCause: Error = new Error('not connected yet');
  #isClosed = false;
  readonly #clock: GuestClock;
  #reconnecting: Promise<void> | undefined;
  #connectedAtMs = Number.NEGATIVE_INFINITY;
  /** Number of consecutive short-lived connections. */
  #shortLived = 0;
  readonly #onConnect = new Set<() => void>();
  /** Whether the guest announced the capability. Throws AppError guest_unreachable. */
  readonly can = (capability: string): boolean => this.#usable().can(capability);
  readonly #calls: CommandChannel = {
    call: (request, signal) => this.#call(request, signal),
    open: (request, handlers) => this.#usable().open(request, handlers),
    can: this.can,
  };
  readonly #hold = new GuestHold(
    (...call) => this.#call(...call),
    () => this.#channel,
  );
  readonly service = new GuestService(this.#calls);
  readonly commands = new GuestCommands(this.#calls, () => this.#explainLoss());
  readonly ports = new GuestPorts(() => ({ channel: this.#usable(), explainLoss: this.#explainLoss }));
  readonly files: GuestFiles = {
    pushFiles: async (path, read, signal, owner) => pushFiles(this.#fileCall(signal), path, read, owner),
    pullFile: async (path, maxBytes, signal) => pullFile(this.#fileCall(signal), path, maxBytes),
    pullDirectory: async (path, signal) => pullDirectory(this.#fileCall(signal), path),
    call: async (call, signal) => callFiles(this.#fileCall(signal), call),
    read: async (read, signal) => readFile(this.#fileCall(signal), read),
    write: async (write, read, signal) => writeFile(this.#fileCall(signal), write, read),
    watch: (watch, events) => watchFiles(this.#fileCall(undefined), watch, events),
  };

  constructor(options: GuestOptions) {
    this.#options = options;
    const isReachable = () => this.#channel !== undefined;
    this.#clock = new GuestClock({ isReachable, call: (...call) => this.#call(...call) }, options.log);
  }

  get isConnected(): boolean {
    return this.#channel !== undefined;
  }

  /** Connects; resolves with the agent's hello. Rejects with the signal's reason or the link's error. */
  async connect(signal?: AbortSignal, options: ConnectOptions = {}): Promise<HelloReply> {
    const { link, needsResync } = await this.#options.source.openChannel(signal);
    let brokenBy: Error | undefined;
    const { channel, hello } = await connectHost(link, {
      incarnation: options.incarnation ?? this.#options.incarnation,
      needsResync: needsResync || options.needsResync === true,
      ...(signal && { signal }),
      onClose: (cause) => {
        brokenBy = cause;
        // A replaced channel does not count as a lost connection.
        if (this.#channel?.isClosed === true) this.#onLost(cause);
      },
    });
    // Bytes received together with the hello may already have violated the protocol.
    if (brokenBy !== undefined) throw brokenBy;
    if (this.#isClosed) {
      channel.close(this.#lastCause);
      throw this.#lastCause;
    }
    this.#channel = channel;
    this.#connectedAtMs = performance.now();
    for (const listener of this.#onConnect) listener();
    this.#clock.reached();
    return hello;
  }

  /**
   * Connects to a guest of an earlier daemon. False if it did not answer within `waitMs`; then reconnecting continues
   * in the background.
   */
  async adopt(waitMs: number, options: ConnectOptions = {}): Promise<boolean> {
    // The earlier daemon may have been killed while the guest was paused, for an unknown time.
    this.#clock.distrust();
    try {
      using limit = deadline(waitMs, () => new Error(`the guest agent did not answer within ${waitMs} ms`));
      await this.connect(limit.signal, options);
      return true;
    } catch (error) {
      this.#onLost(toError(error));
      return false;
    }
  }

  /** The guest was paused: corrects its clock, now or as soon as the guest is reachable. */
  stepClock(): void {
    this.#clock.distrust();
  }

  /** Calls `listener` after each new connection, until the returned function is called. */
  watchConnections(listener: () => void): () => void {
    this.#onConnect.add(listener);
    return () => this.#onConnect.delete(listener);
  }

  /** Replaces the connection by one for another incarnation of this guest's memory. */
  async reconnect(incarnation: string, signal?: AbortSignal): Promise<void> {
    const old = this.#channel;
    this.#channel = undefined;
    old?.close(new Error('replaced'));
    await this.connect(signal, { incarnation });
  }

  /** Closes the connection permanently. */
  close(cause: Error): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#lastCause = cause;
    this.#clock.close();
    this.#channel?.close(cause);
    this.#channel = undefined;
  }

  /** AppError guest_unreachable or exhausted; failures of the command itself are in its exit event. */
  exec(request: ExecRequest, events: ExecEvents, options: ExecOptions = {}): ExecSession {
    const channel = this.#usable();
    try {
      return startExec(channel, request, events, { ...options, explainLoss: this.#explainLoss });
    } catch (error) {
      throw toCallError(error, 'exec');
    }
  }

  /**
   * Gives the guest a new identity and corrects its clock, as precisely as a few round trips allow. Returns where it
   * could not add the authority that it is to trust. AppError unsupported if the agent is too old for a part of it.
   */
  async setIdentity(identity: IdentityInput, signal?: AbortSignal): Promise<string[]> {
    assertCanTake(identity, this.can);
    let problems: string[] = [];
    await this.#clock.settle(async () => {
      const result = await this.#call({ identity }, signal);
      problems = problemsOf(result.identity?.trust);
      return { fromUs: Number(identity.unixTimeUs), toUs: result.identity?.unixTimeUs ?? 0 };
    }, signal);
    return problems;
  }

  /** Adds the authority of inspected TLS; an empty certificate: nothing is inspected. As `setIdentity` for the rest. */
  async trust(trust: TrustInput, signal?: AbortSignal): Promise<string[]> {
    assertCanTrust(trust, this.can);
    return this.can(TRUST) ? problemsOf((await this.#call({ trust }, signal)).trust) : [];
  }

  /**
   * Continues a guest that was paused: gives it entropy, corrects its clock, and thaws its commands. `network`: its
   * interface is set up again. Returns as `setIdentity`; an agent that is too old trusts nothing.
   */
  async wake(input: Omit<WakeInput, 'unixTimeUs'>): Promise<string[]> {
    if (!this.can(SLEEP)) {
      await this.#call({ freeze: { isFrozen: false } });
      this.stepClock();
      return [];
    }
    let problems: string[] = [];
    await this.#clock.settle(async () => {
      const unixTimeUs = nowUs();
      const { wake } = await this.#call({ wake: { ...input, unixTimeUs } });
      problems = problemsOf(wake?.trust);
      return { fromUs: unixTimeUs, toUs: wake?.unixTimeUs ?? 0 };
    });
    return problems;
  }

  async stats(signal?: AbortSignal): Promise<StatsResult> {
    const result = await this.#call({ stats: {} }, signal);
    if (!result.stats) throw badAnswer('no statistics');
    return result.stats as StatsResult;
  }

  /** Makes the guest grow the file system of its writable layer to the size of its disk. */
  async growDisk(signal?: AbortSignal): Promise<void> {
    await this.#call({ growDisk: {} }, signal);
  }

  /** See GuestHold. */
  async hold(options?: { readonly sync?: boolean }): Promise<boolean> {
    return await this.#hold.hold(this.#usable(), options);
  }

  /** See GuestHold.writeOut. AppError guest_unreachable. */
  async writeOut(): Promise<void> {
    await this.#hold.writeOut(this.#usable());
  }

  release(): void {
    this.#channel?.release();
  }

  /** Round trip to the agent, in milliseconds. */
  async ping(payload?: Uint8Array): Promise<number> {
    const startedAt = performance.now();
    await this.#usable().ping(payload);
    return performance.now() - startedAt;
  }

  /** A call without byte streams. Rejects with AgentError, or AppError guest_unreachable. */
  #call(request: RequestInput, outer?: AbortSignal): Promise<Result> {
    const channel = this.#usable();
    return new Promise((resolve, reject) => {
      outer?.throwIfAborted();
      const stream = channel.open(request, {
        result: (result) => {
          limit[Symbol.dispose]();
          const refusal = refusalOf(result);
          if (refusal === undefined) resolve(result);
          else reject(refusal);
        },
        lost: (loss) => {
          limit[Symbol.dispose]();
          reject(unreachable(causeOf(loss)));
        },
      });
      const limit = deadline(
        CALL_TIMEOUT_MS,
        () =>
          new AppError('guest_unreachable', `the guest agent did not answer within ${CALL_TIMEOUT_MS} ms`),
        outer,
      );
      limit.signal.addEventListener('abort', () => {
        limit[Symbol.dispose]();
        stream.handlers = {};
        stream.cancel();
        reject(limit.signal.reason);
      });
    });
  }

  #fileCall(signal: AbortSignal | undefined): FileCallOptions {
    return { channel: this.#usable(), explainLoss: this.#explainLoss, ...(signal && { signal }) };
  }

  /** A deliberate close has its own reason; the VM's exit would be only its consequence. */
  readonly #explainLoss = async (): Promise<string | undefined> =>
    this.#isClosed ? this.#lastCause.message : this.#options.explainLoss?.();

  #usable(): Channel {
    if (this.#channel !== undefined) return this.#channel;
    throw unreachable(this.#lastCause);
  }

  #onLost(cause: Error): void {
    const isShortLived = performance.now() - this.#connectedAtMs < STABLE_MS;
    this.#shortLived = isShortLived ? this.#shortLived + 1 : 0;
    this.#channel = undefined;
    this.#lastCause = cause;
    if (this.#isClosed) return;
    this.#options.log.warn({ err: cause }, 'the connection to the guest agent broke');
    this.#reconnecting ??= this.#reconnect().finally(() => {
      this.#reconnecting = undefined;
    });
  }

  /** Retries until it succeeds or the guest is closed. The next caller gets the last failure as its error message. */
  async #reconnect(): Promise<void> {
    while (!this.#isClosed && this.#channel === undefined) {
      // No wait before the first attempt: a single loss may have a harmless cause.
      const bounds = { firstMs: RECONNECT_PAUSE_MS, mostMs: MAX_RECONNECT_PAUSE_MS };
      await sleep(backOffMs(this.#shortLived - 1, bounds), undefined, { ref: false });
      if (this.#isClosed) return;
      try {
        using limit = deadline(RECONNECT_TIMEOUT_MS, () => new Error('the guest agent does not answer'));
        await this.connect(limit.signal);
        this.#options.log.info('connected to the guest agent again');
      } catch (error) {
        this.#lastCause = toError(error);
      }
      await sleep(RECONNECT_PAUSE_MS, undefined, { ref: false });
    }
  }
}
