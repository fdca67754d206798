// The guest agent of one sandbox, as the host sees it: one connection, made again when it broke, and calls over it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecRequest } from '@sandboxd/api';
import {
  type Channel,
  CLOCK,
  connectHost,
  FREEZE,
  type HelloReply,
  type IdentityInput,
  NETWORK,
  type RequestInput,
  type Result,
  type StatsResult,
} from '@sandboxd/proto';
import type { Logger } from 'pino';
import { backOffMs } from '../lib/back-off.ts';
import { AppError, toError } from '../lib/errors.ts';
import { loadScaledTimeout } from '../lib/load-scaled-timeout.ts';
import { deadline } from '../lib/wait.ts';
import { badAnswer, causeOf, refusalOf, toCallError, unreachable } from './agent-errors.ts';
import { GuestClock } from './clock.ts';
import { startExec } from './exec.ts';
import type { ExecEvents, ExecOptions, ExecSession } from './exec-types.ts';
import { type FileCallOptions, type GuestFiles, pullDirectory, pullFile, pushFiles } from './files.ts';
import { GuestService } from './service.ts';

/** Where connections come from; the engine's VM is one. */
export interface ChannelSource {
  openChannel(signal?: AbortSignal): Promise<{
    readonly link: Parameters<typeof connectHost>[0];
    readonly needsResync: boolean;
  }>;
}

export type GuestOptions = {
  readonly source: ChannelSource;
  /** Identity of this life of the guest's memory; a fork has another. */
  readonly incarnation: string;
  readonly log: Logger;
  /** Why the channel may have broken, when that is known a moment later: the VM's end. */
  readonly explainLoss?: () => Promise<string | undefined>;
};

const RECONNECT_TIMEOUT_MS = 10_000;
/** A guest that breaks its connections again and again costs one attempt in this time, then in twice as long, and so on. */
const RECONNECT_PAUSE_MS = 1000;
const MOST_RECONNECT_PAUSE_MS = 60_000;
/** A connection that held for so long is not one of those. */
const STEADY_MS = 60_000;
const CALL_TIMEOUT_MS = 30_000;
/** An idle guest answers within a millisecond; one that is busy is not waited for. */
const HOLD_TIMEOUT_MS = 1000;
/** On a host that is not busy; the guest gives its commands half a second. */
const FREEZE_TIMEOUT_MS = 10_000;
/** One that takes no bytes now is told again to let its commands go on. */
const THAW_PAUSE_MS = 1000;

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
  /** Connections in a row that broke soon. */
  #shortLived = 0;
  #holds = 0;
  readonly #onConnect = new Set<() => void>();
  readonly service = new GuestService({
    call: (request, signal) => this.#call(request, signal),
    open: (request, handlers) => this.#usable().open(request, handlers),
  });
  readonly files: GuestFiles = {
    pushFiles: async (path, read, signal) => pushFiles(this.#fileCall(signal), path, read),
    pullFile: async (path, maxBytes, signal) => pullFile(this.#fileCall(signal), path, maxBytes),
    pullDirectory: async (path, signal) => pullDirectory(this.#fileCall(signal), path),
  };

  constructor(options: GuestOptions) {
    this.#options = options;
    const canShift = () => this.#channel?.can(CLOCK);
    this.#clock = new GuestClock({ canShift, call: (...call) => this.#call(...call) }, options.log);
  }

  get isConnected(): boolean {
    return this.#channel !== undefined;
  }

  /** Connects; resolves with what the agent says about itself. Rejects with the signal's reason or the link's error. */
  async connect(signal?: AbortSignal, options: ConnectOptions = {}): Promise<HelloReply> {
    const { link, needsResync } = await this.#options.source.openChannel(signal);
    let brokenBy: Error | undefined;
    const { channel, hello } = await connectHost(link, {
      incarnation: options.incarnation ?? this.#options.incarnation,
      needsResync: needsResync || options.needsResync === true,
      ...(signal && { signal }),
      onClose: (cause) => {
        brokenBy = cause;
        // One that was replaced is not missed.
        if (this.#channel?.isClosed === true) this.#lost(cause);
      },
    });
    // What came in one piece with the hello may have broken the protocol before we were told of the hello.
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
   * Connects to a guest that another daemon spoke to; false when it did not answer within `waitMs`, and then it is tried
   * on.
   */
  async adopt(waitMs: number): Promise<boolean> {
    // The other daemon may have ended while the guest stood still for it, nobody knows for how long.
    this.#clock.distrust();
    try {
      using limit = deadline(waitMs, () => new Error(`the guest agent did not answer within ${waitMs} ms`));
      await this.connect(limit.signal);
      return true;
    } catch (error) {
      this.#lost(toError(error));
      return false;
    }
  }

  /** The guest stood still: its clock is put right, at once or as soon as the guest can be reached. */
  stepClock(): void {
    this.#clock.distrust();
  }

  /** Calls `listener` after each new connection until the returned function is called. */
  watchConnections(listener: () => void): () => void {
    this.#onConnect.add(listener);
    return () => this.#onConnect.delete(listener);
  }

  /** Gives up the connection and makes another, as the host of another life of this guest's memory. */
  async reconnect(incarnation: string, signal?: AbortSignal): Promise<void> {
    const old = this.#channel;
    this.#channel = undefined;
    old?.close(new Error('replaced'));
    await this.connect(signal, { incarnation });
  }

  /** Gives up the connection for good. */
  close(cause: Error): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#lastCause = cause;
    this.#clock.close();
    this.#channel?.close(cause);
    this.#channel = undefined;
  }

  /** AppError guest_unreachable, or exhausted; the command's own failures are its exit event. */
  exec(request: ExecRequest, events: ExecEvents, options: ExecOptions = {}): ExecSession {
    const channel = this.#usable();
    try {
      return startExec(channel, request, events, { ...options, explainLoss: this.#explainLoss });
    } catch (error) {
      throw toCallError(error, 'exec');
    }
  }

  /**
   * Makes the guest this one, its clock included, as near as a few round trips can bring it. AppError unsupported when its
   * agent is too old for a part of that.
   */
  async setIdentity(identity: IdentityInput, signal?: AbortSignal): Promise<void> {
    if (identity.network && !this.#usable().can(NETWORK)) {
      const what = 'the agent of this root filesystem knows no network; bake the profile again';
      throw new AppError('unsupported', what);
    }
    await this.#clock.settle(async () => {
      const result = await this.#call({ identity }, signal);
      return { fromUs: Number(identity.unixTimeUs), toUs: result.identity?.unixTimeUs ?? 0 };
    }, signal);
  }

  async stats(signal?: AbortSignal): Promise<StatsResult> {
    const result = await this.#call({ stats: {} }, signal);
    if (!result.stats) throw badAnswer('no statistics');
    return result.stats as StatsResult;
  }

  /** The guest grows the file system of its writable layer to the size of its disk. */
  async growDisk(signal?: AbortSignal): Promise<void> {
    await this.#call({ growDisk: {} }, signal);
  }

  /**
   * Has the guest's commands and service stand still, stops sending and waits until the guest has read everything; true
   * when it has, so that a copy of it needs no resync. `release` must follow, also when this rejects. AppError
   * guest_unreachable when the commands may run on: a copy would go on before it knows who it is.
   */
  async hold(): Promise<boolean> {
    const channel = this.#usable();
    this.#holds += 1;
    using limit = loadScaledTimeout({
      timeoutMs: FREEZE_TIMEOUT_MS,
      reason: (waitedMs) =>
        new AppError('guest_unreachable', `the guest agent did not stop its commands within ${waitedMs} ms`),
    });
    // Older agents cannot.
    const frozen = channel.can(FREEZE)
      ? this.#call({ freeze: { isFrozen: true } }, limit.signal)
      : Promise.resolve();
    const quiet = this.#quiet(channel);
    // The first of what is kept back, as nothing can be started until then.
    if (channel.can(FREEZE)) this.#thaw(channel);
    const [isQuiet] = await Promise.all([quiet, frozen]);
    return isQuiet;
  }

  /** A guest that does not answer soon is left as it is. */
  #quiet(channel: Channel): Promise<boolean> {
    const answered = channel.hold().then(
      () => true,
      () => false,
    );
    const timeout = new Promise<boolean>((resolve) => setTimeout(resolve, HOLD_TIMEOUT_MS, false).unref());
    return Promise.race([answered, timeout]);
  }

  release(): void {
    this.#channel?.release();
  }

  /** Of a guest that refuses or takes no bytes again and again; where the connection breaks, the next hello does it. */
  #thaw(channel: Channel): void {
    const holds = this.#holds;
    const tryAgain = (): void => {
      if (this.#channel === channel && this.#holds === holds) this.#thaw(channel);
    };
    const retry = () => void setTimeout(tryAgain, THAW_PAUSE_MS).unref();
    try {
      channel.open({ freeze: { isFrozen: false } }, { result: (result) => refusalOf(result) && retry() });
    } catch {
      retry();
    }
  }

  /** Round trip to the agent, in milliseconds. */
  async ping(payload?: Uint8Array): Promise<number> {
    const startedAt = performance.now();
    await this.#usable().ping(payload);
    return performance.now() - startedAt;
  }

  /** A call without byte flows. Rejects with AgentError, or AppError guest_unreachable. */
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

  /** Who gave up the connection on purpose knows why; the VM's end would only be what follows from it. */
  readonly #explainLoss = async (): Promise<string | undefined> =>
    this.#isClosed ? this.#lastCause.message : this.#options.explainLoss?.();

  #usable(): Channel {
    if (this.#channel !== undefined) return this.#channel;
    throw unreachable(this.#lastCause);
  }

  #lost(cause: Error): void {
    const isShortLived = performance.now() - this.#connectedAtMs < STEADY_MS;
    this.#shortLived = isShortLived ? this.#shortLived + 1 : 0;
    this.#channel = undefined;
    this.#lastCause = cause;
    if (this.#isClosed) return;
    this.#options.log.warn({ err: cause }, 'the connection to the guest agent broke');
    this.#reconnecting ??= this.#reconnect().finally(() => {
      this.#reconnecting = undefined;
    });
  }

  /** Tries until it works or the guest is closed. Its failures are the next caller's message. */
  async #reconnect(): Promise<void> {
    while (!this.#isClosed && this.#channel === undefined) {
      // The first may have had its reasons.
      const bounds = { firstMs: RECONNECT_PAUSE_MS, mostMs: MOST_RECONNECT_PAUSE_MS };
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
