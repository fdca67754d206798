// The service calls of the agent protocol; the guest's answers are validated.
import { RESTART_POLICIES, SERVICE_STATES, type ServiceSpec, SIGNALS } from '@sandboxd/api';
import {
  type ExecResult,
  FLOW,
  MAX_SERVICE_RECORD_BYTES,
  type RequestInput,
  type Result,
  SERVICE_HEADER_BYTES,
  SERVICE_VERB,
  type ServiceOutputResult,
  type ServiceRecord,
  ServiceRecordDecoder,
  type Stream,
  type StreamHandlers,
  type ServiceRing as WireRing,
  type ServiceSpec as WireSpec,
  type ServiceStatus as WireStatus,
} from '@sandboxd/proto';
import type { AppError } from '../lib/errors.ts';
import { badAnswer, count, refusalOf, toCallError, toLossError, unixMs } from './agent-errors.ts';
import { type ExecOutcome, toExecOutcome } from './exec.ts';

/** What these calls need of the guest's connection. */
export interface ServiceChannel {
  /** A call without byte streams. Rejects with AgentError, or AppError guest_unreachable. */
  call(request: RequestInput, signal?: AbortSignal): Promise<Result>;
  /** Throws AppError guest_unreachable. */
  open(request: RequestInput, handlers: StreamHandlers): Stream;
}

/** Allowance for gap records within a page. */
const GAPS_BYTES = 64 * 1024;

type ServiceVerb = 'status' | 'start' | 'stop' | 'restart';

export class GuestService {
  readonly #channel: ServiceChannel;
  readonly #configured = Promise.withResolvers<void>();

  constructor(channel: ServiceChannel) {
    this.#channel = channel;
  }

  /** `baseEnv` is what the spec's own variables are added to. AppError invalid_argument, guest_unreachable. */
  configure(
    spec: ServiceSpec,
    baseEnv: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<ServiceStatus> {
    const wire = toWireSpec(spec, baseEnv);
    const status = this.#status({ serviceConfigure: { spec: wire } }, signal);
    this.#configured.resolve();
    return status;
  }

  /** Resolves with the first call that configures a service. */
  get configured(): Promise<void> {
    return this.#configured.promise;
  }

  /** AppError conflict for start and restart without a service. `graceMs` is for stop. */
  control(verb: ServiceVerb, graceMs?: number, signal?: AbortSignal): Promise<ServiceStatus> {
    const number = {
      status: SERVICE_VERB.STATUS,
      start: SERVICE_VERB.START,
      stop: SERVICE_VERB.STOP,
      restart: SERVICE_VERB.RESTART,
    }[verb];
    const grace = graceMs === undefined ? {} : { graceMs };
    return this.#status({ serviceControl: { verb: number, ...grace } }, signal);
  }

  /** Opens the output. AppError guest_unreachable. */
  output(request: ServiceOutputRequest, events: OutputEvents): OutputSubscription {
    return new OutputSubscription(this.#channel, request, events);
  }

  async #status(request: RequestInput, signal?: AbortSignal): Promise<ServiceStatus> {
    const result = await this.#channel.call(request, signal).catch((error: unknown) => {
      throw toCallError(error, 'service');
    });
    if (!result.serviceStatus) throw badAnswer('no status');
    return toStatus(result.serviceStatus as WireStatus);
  }
}

/** In order; `end` or `failed` comes exactly once and last. */
export type OutputEvents = {
  /**
   * Flow control: the guest sends at most a window beyond what was `consumed`. `bytes` is the encoded size of these
   * records.
   */
  records(records: readonly ServiceRecord[], bytes: number): void;
  end(end: ServiceOutputEnd): void;
  failed(error: AppError): void;
};

export class OutputSubscription {
  readonly #stream: Stream;
  readonly #events: OutputEvents;
  readonly #decoder = new ServiceRecordDecoder();
  /** Number of bytes that may still come. */
  #left: number;
  #isOver = false;

  constructor(channel: ServiceChannel, request: ServiceOutputRequest, events: OutputEvents) {
    this.#events = events;
    const { ring = '', fromSeq = 0, isFollowing, isWaiting, maxBytes = 0 } = request;
    this.#left = maxBytes === 0 ? Number.POSITIVE_INFINITY : maxEncodedBytes(maxBytes);
    this.#stream = channel.open(
      { serviceOutput: { ring, fromSeq, follow: isFollowing, wait: isWaiting, maxBytes } },
      {
        data: (flow, chunk) => this.#onData(flow, chunk),
        result: (result) => this.#onResult(result),
        lost: (loss) => {
          void toLossError(loss, 'output was read').then((error) => this.#fail(error));
        },
      },
    );
  }

  consumed(bytes: number): void {
    if (!this.#isOver && bytes > 0) this.#stream.consumed(bytes);
  }

  /** Cancels the subscription; no event follows. */
  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stream.cancel();
  }

  #onData(flow: number, chunk: Buffer): void {
    if (this.#isOver) return;
    this.#left -= chunk.length;
    if (this.#left < 0) {
      // The reader of a page stores all of it, so its size must be limited.
      this.#stream.cancel();
      this.#fail(badAnswer('more output than it was asked for'));
      return;
    }
    const records = flow === FLOW.out ? this.#decoder.push(Buffer.from(chunk)) : [];
    this.#events.records(records, chunk.length);
  }

  #onResult(result: Result): void {
    const refusal = refusalOf(result);
    if (refusal !== undefined) this.#fail(toCallError(refusal, 'service'));
    if (this.#isOver) return;
    this.#isOver = true;
    const { ring, nextSeq } = (result.serviceOutput ?? {}) as Partial<ServiceOutputResult>;
    this.#events.end({ ring: toRing(ring as WireRing | undefined), nextSeq: count(nextSeq ?? 0) });
  }

  #fail(error: AppError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events.failed(error);
  }
}

/** Worst case: records of one byte each, and one record that is longer than the limit. */
function maxEncodedBytes(maxBytes: number): number {
  return maxBytes * (SERVICE_HEADER_BYTES + 1) + MAX_SERVICE_RECORD_BYTES + GAPS_BYTES;
}

function toWireSpec(spec: ServiceSpec, baseEnv: Readonly<Record<string, string>>) {
  return {
    cmd: [...spec.cmd],
    env: toList(spec.env),
    baseEnv: toList(baseEnv),
    makeCwd: spec.env_exact,
    cwd: spec.cwd ?? '',
    user: spec.user ?? '',
    stopSignal: spec.stop_signal,
    stopGraceMs: spec.stop_grace_s * 1000,
    restartPolicy: spec.restart.policy,
    maxRetries: spec.restart.max_retries,
    logBufferBytes: spec.log_buffer_bytes,
  };
}

function toStatus(wire: WireStatus): ServiceStatus {
  const state = SERVICE_STATES.find((known) => known === wire.state);
  if (state === undefined) throw badAnswer('an unknown service state');
  const isLive = wire.pid > 0;
  return {
    state,
    ...(wire.spec && {
      spec: toSpec(wire.spec as WireSpec),
      restarts: count(wire.restarts),
      ring: toRing(wire.ring as WireRing | undefined),
    }),
    // A saved guest's agent may report a process that does not exist any more.
    ...(isLive && {
      pid: wire.pid,
      ...(wire.startedUnixMs > 0 && { startedUnixMs: unixMs(wire.startedUnixMs) }),
      uptimeMs: count(wire.uptimeMs),
      liveRssBytes: count(wire.liveRssBytes),
      livePeakRssBytes: count(wire.livePeakRssBytes),
    }),
    ...(wire.lastExit && {
      lastExit: toExecOutcome(wire.lastExit as ExecResult),
      lastExitUnixMs: unixMs(wire.lastExitUnixMs),
      isLastExitRequested: wire.lastExitRequested,
    }),
  };
}

function toSpec(wire: WireSpec): ServiceSpec {
  return {
    cmd: wire.cmd,
    env: Object.fromEntries(wire.env.map((entry) => splitVariable(entry))),
    env_exact: wire.makeCwd,
    ...(wire.cwd !== '' && { cwd: wire.cwd }),
    ...(wire.user !== '' && { user: wire.user }),
    stop_signal: SIGNALS.find((known) => known === wire.stopSignal) ?? 'SIGTERM',
    stop_grace_s: Math.floor(count(wire.stopGraceMs) / 1000),
    restart: {
      policy: RESTART_POLICIES.find((known) => known === wire.restartPolicy) ?? 'never',
      max_retries: wire.maxRetries,
    },
    log_buffer_bytes: wire.logBufferBytes,
  };
}

function toRing(wire: WireRing | undefined): ServiceRing {
  return {
    id: wire?.id.slice(0, 16) ?? '',
    firstSeq: count(wire?.firstSeq ?? 0),
    nextSeq: count(wire?.nextSeq ?? 0),
    droppedRecords: count(wire?.droppedRecords ?? 0),
    droppedBytes: count(wire?.droppedBytes ?? 0),
  };
}

function toList(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}

function splitVariable(entry: string): [string, string] {
  const at = entry.indexOf('=');
  return [entry.slice(0, at), entry.slice(at + 1)];
}

/** One output buffer in the guest; each new spec gets a new one. Records are numbered from 0. */
type ServiceRing = {
  readonly id: string;
  readonly firstSeq: number;
  readonly nextSeq: number;
  readonly droppedRecords: number;
  readonly droppedBytes: number;
};

/** All fields except the state are present only if known. */
export type ServiceStatus = {
  readonly state: (typeof SERVICE_STATES)[number];
  readonly pid?: number;
  readonly restarts?: number;
  readonly spec?: ServiceSpec;
  readonly startedUnixMs?: number;
  readonly uptimeMs?: number;
  readonly lastExit?: ExecOutcome;
  readonly lastExitUnixMs?: number;
  readonly isLastExitRequested?: boolean;
  readonly liveRssBytes?: number;
  readonly livePeakRssBytes?: number;
  readonly ring?: ServiceRing;
};

export type ServiceOutputRequest = {
  /** If this ring does not exist any more, the output starts at the oldest stored record. Absent: the newest ring. */
  readonly ring?: string;
  readonly fromSeq?: number;
  readonly isFollowing: boolean;
  /** Waits until a service is configured; otherwise a missing service is a conflict. */
  readonly isWaiting: boolean;
  /** Maximum output before it ends; absent: unlimited. */
  readonly maxBytes?: number;
};

export type ServiceOutputEnd = { readonly ring: ServiceRing; readonly nextSeq: number };
