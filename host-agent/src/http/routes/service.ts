// The supervised service: status, configure, start, stop, restart, output.
import {
  DEFAULT_OUTPUT_PAGE_BYTES,
  EXEC_FRAME,
  execFrameHeader,
  MAX_OUTPUT_PAGE_BYTES,
  type ServiceSpec,
} from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import type { ServiceOutputEnd, ServiceStatus } from '../../guest/service.ts';
import { tenantOf } from '../../keys/index.ts';
import type { Chunk, PullStream } from '../../lib/byte-queue.ts';
import { type LogRecord, logsAreOff } from '../../logs/index.ts';
import type { SandboxService } from '../../sandboxes/service.ts';
import { clientSignal, guestOf, type HttpContext } from '../context.ts';
import { toExecResultBody } from '../exec/exec-run.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

const LINES = 'application/x-ndjson';

export function serviceHandlers({ sandboxes: host, stopping }: HttpServices) {
  const serviceOf = async (c: HttpContext, id: string) => (await guestOf(host, c, id)).service();
  return {
    getService: async ({ params: { id } }, c) =>
      toStatusBody(await (await serviceOf(c, id)).status(clientSignal(c))),

    // These operations continue after a disconnect of the client, so they get no signal.
    configureService: async ({ params: { id }, body }, c) =>
      toStatusBody(await (await serviceOf(c, id)).configure(body)),

    startService: async ({ params: { id } }, c) => toStatusBody(await (await serviceOf(c, id)).start()),

    stopService: async ({ params: { id }, body: { grace_s } }, c) =>
      toStatusBody(await (await serviceOf(c, id)).stop(grace_s === undefined ? undefined : grace_s * 1000)),

    restartService: async ({ params: { id } }, c) => toStatusBody(await (await serviceOf(c, id)).restart()),

    readServiceLogs: async ({ params: { id }, query: { follow, from_seq, max_bytes, ring } }, c) => {
      const service = await serviceOf(c, id);
      const areLines = accepts(c, LINES);
      if (
        !areLines &&
        (from_seq !== undefined || max_bytes !== undefined || accepts(c, 'application/json'))
      ) {
        const maxBytes = Math.min(max_bytes ?? DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES);
        return readOutputPage(service, { fromSeq: from_seq ?? 0, maxBytes }, clientSignal(c));
      }
      const signals = [clientSignal(c), ...(stopping ? [stopping] : [])];
      const from = areLines && from_seq !== undefined ? { fromSeq: from_seq, ...(ring && { ring }) } : {};
      const request = { isFollowing: follow, isWaiting: false, ...from };
      const output = new OutputStream(
        (sink) => service.output(request, sink),
        areLines ? asLines() : asFrames(),
        signals,
      );
      await output.opened;
      const headers = { 'Content-Type': areLines ? LINES : 'application/octet-stream' };
      if (c.req.method !== 'HEAD') return answerPullStream(c, output, headers);
      output.cancel();
      return c.body(null, 200, headers);
    },
  } satisfies Partial<Handlers>;
}

function accepts(c: HttpContext, type: string): boolean {
  return c.req.header('accept')?.toLowerCase().includes(type) ?? false;
}

// The status of a service as JSON: the state, and the other fields if they have a value.
export function toStatusBody(status: ServiceStatus) {
  const { state, pid, restarts, spec, ring, lastExit, lastExitUnixMs, isLastExitRequested } = status;
  const { startedUnixMs, uptimeMs, liveRssBytes, livePeakRssBytes } = status;
  return {
    state,
    ...(pid === undefined ? {} : { pid }),
    ...(restarts === undefined ? {} : { restarts }),
    ...(spec === undefined ? {} : { spec: toSpecBody(spec) }),
    ...(startedUnixMs === undefined ? {} : { started_at_unix_ms: startedUnixMs }),
    ...(uptimeMs === undefined ? {} : { uptime_ms: uptimeMs }),
    ...(lastExit === undefined ? {} : { last_exit: toExecResultBody(lastExit) }),
    ...(lastExitUnixMs === undefined ? {} : { last_exit_at_unix_ms: lastExitUnixMs }),
    ...(isLastExitRequested === undefined ? {} : { last_exit_requested: isLastExitRequested }),
    ...(liveRssBytes === undefined ? {} : { live_rss_bytes: liveRssBytes }),
    ...(livePeakRssBytes === undefined ? {} : { live_peak_rss_bytes: livePeakRssBytes }),
    ...(ring === undefined
      ? {}
      : {
          log_dropped_bytes: ring.droppedBytes,
          log_first_seq: ring.firstSeq,
          log_next_seq: ring.nextSeq,
        }),
  };
}

function toSpecBody(spec: ServiceSpec) {
  return {
    cmd: spec.cmd,
    ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
    ...(Object.keys(spec.env).length === 0 ? {} : { env: spec.env }),
    ...(spec.env_exact ? { env_exact: true as const } : {}),
    log_buffer_bytes: spec.log_buffer_bytes,
    restart: {
      policy: spec.restart.policy,
      ...(spec.restart.max_retries === 0 ? {} : { max_retries: spec.restart.max_retries }),
    },
    stop_grace_s: spec.stop_grace_s,
    stop_signal: spec.stop_signal,
    ...(spec.user === undefined ? {} : { user: spec.user }),
  };
}

// One JSON page of service output.
type PageQuery = { readonly fromSeq: number; readonly maxBytes: number };

/** AppError conflict if the sandbox has no service, guest_unreachable. */
export async function readOutputPage(
  service: Pick<SandboxService, 'output'>,
  { fromSeq, maxBytes }: PageQuery,
  signal: AbortSignal,
) {
  const records: ServiceRecord[] = [];
  const { ring, nextSeq } = await new Promise<ServiceOutputEnd>((resolve, reject) => {
    const subscription = service.output(
      { fromSeq, maxBytes, isFollowing: false, isWaiting: false },
      {
        records: (batch, bytes) => {
          records.push(...batch);
          subscription.consumed(bytes);
        },
        end: resolve,
        failed: reject,
      },
    );
    const onAbort = (): void => {
      subscription.cancel();
      reject(signal.reason);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  const output = records.filter((record) => record.kind === 'output');
  const gaps = records.filter((record) => record.kind === 'gap');
  return {
    records:
      output.length === 0
        ? null
        : output.map(({ seq, stream, unixMs, data }) => ({
            seq,
            stream,
            unix_ms: unixMs,
            data: data.toString('base64'),
          })),
    next_seq: nextSeq,
    first_seq: ring.firstSeq,
    ...(gaps.length === 0
      ? {}
      : {
          dropped_records: gaps.reduce((sum, gap) => sum + gap.records, 0),
          dropped_bytes: gaps.reduce((sum, gap) => sum + gap.bytes, 0),
        }),
  };
}

// A stream of the output of a service or of a detached command as exec frames or JSON, with backpressure.
/** The encoding of records. */
export type OutputForm<End = unknown> = {
  render(record: ServiceRecord): Buffer[];
  /** An empty frame or line. */
  readonly keepalive: Buffer;
  /** What is last. */
  finish?(end: End): Buffer[];
};

type OutputSink<End> = {
  records(records: readonly ServiceRecord[], bytes: number): void;
  end(end: End): void;
  failed(error: Error): void;
};
type OutputSource<End> = (sink: OutputSink<End>) => {
  consumed(bytes: number): void;
  cancel(): void;
};

/** A stderr frame reports output that was dropped while the client read, but not output dropped before that. */
export function asFrames(): OutputForm {
  let hasOutput = false;
  return {
    render(record) {
      if (record.kind === 'output') {
        hasOutput = true;
        return [execFrameHeader(EXEC_FRAME[record.stream], record.data.length), record.data];
      }
      if (record.kind === 'ring' || !hasOutput) return [];
      const notice = Buffer.from(`\n[sandboxd: ${record.bytes} bytes of output were dropped here]\n`);
      return [execFrameHeader(EXEC_FRAME.stderr, notice.length), notice];
    },
    keepalive: execFrameHeader(EXEC_FRAME.stdout, 0),
  };
}

/** Lines with sequence numbers, so that a client can continue after the last one. */
export function asLines(): OutputForm {
  return {
    render: (record) => [Buffer.from(`${JSON.stringify(toLine(record))}\n`)],
    keepalive: Buffer.from('\n'),
  };
}

function toLine(record: ServiceRecord) {
  const { kind, seq } = record;
  if (kind === 'ring') return { seq, ring: record.id };
  if (kind === 'gap') return { seq, dropped_records: record.records, dropped_bytes: record.bytes };
  const { stream, unixMs, data } = record;
  return { seq, stream, unix_ms: unixMs, data: data.toString('base64') };
}

type Batch = { readonly frames: readonly Buffer[]; readonly bytes: number };

export class OutputStream<End> implements PullStream {
  /** Resolves when the guest begins to respond; rejects if it refuses. */
  readonly opened: Promise<void>;
  readonly #subscription: ReturnType<OutputSource<End>>;
  #queue: Batch[] = [];
  #wake: () => void = () => {};
  #ending: { readonly error?: Error } | undefined;
  readonly #form: OutputForm<End>;
  #unlisten: () => void = () => {};
  readonly #open: () => void;

  /** Subscribes to the output. Each of `signals` cancels the stream. Throws AppError. */
  constructor(subscribe: OutputSource<End>, form: OutputForm<End>, signals: readonly AbortSignal[]) {
    this.#form = form;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    this.#open = resolve;
    // Prevents an unhandled rejection before a caller awaits it.
    promise.catch(() => {});
    this.#subscription = subscribe({
      records: (records, bytes) => {
        resolve();
        this.#queue.push({ frames: records.flatMap((record) => form.render(record)), bytes });
        this.#wake();
      },
      end: (end) => {
        this.#queue.push({ frames: form.finish?.(end) ?? [], bytes: 0 });
        this.#end({});
      },
      failed: (error) => {
        reject(error);
        this.#end({ error });
      },
    });
    const onAbort = (): void => this.cancel();
    for (const signal of signals) signal.addEventListener('abort', onAbort, { once: true });
    this.#unlisten = () => {
      for (const signal of signals) signal.removeEventListener('abort', onAbort);
    };
    if (signals.some((signal) => signal.aborted)) this.cancel();
  }

  /** The client has disconnected, or a signal aborted. */
  cancel(): void {
    this.#subscription.cancel();
    this.#queue = [];
    this.#end({});
  }

  keepalive(): void {
    if (this.#queue.length > 0) return;
    this.#queue.push({ frames: [this.#form.keepalive], bytes: 0 });
    this.#wake();
  }

  /** Rejects if the guest is lost. */
  async next(): Promise<Chunk | undefined> {
    for (;;) {
      const batches = this.#queue.splice(0);
      const frames = batches.flatMap((batch) => batch.frames);
      // Returns credit only now. Until then the ring in the guest overwrites old output instead of filling memory here.
      this.#subscription.consumed(batches.reduce((sum, { bytes }) => sum + bytes, 0));
      if (frames.length > 0) return { bytes: Buffer.concat(frames), release: () => {} };
      if (this.#ending?.error !== undefined) throw this.#ending.error;
      if (this.#ending !== undefined) return undefined;
      if (batches.length === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  #end(ending: { readonly error?: Error }): void {
    this.#unlisten();
    this.#ending ??= ending;
    this.#open();
    this.#wake();
  }
}

// The durable log of a sandbox, also after the sandbox was deleted.

export function logHandlers(services: HttpServices) {
  return {
    readLogs: async ({ params: { id }, query: { since, source } }, c) => {
      const { principal } = c.var;
      const tenant = tenantOf(principal);
      if (services.logs === undefined) throw logsAreOff();
      const page = await services.logs.read(id, {
        ...(since >= 0 && { since }),
        ...(source !== 'all' && { source }),
        ...(tenant !== undefined && { tenant }),
      });
      if (page === undefined) services.sandboxes.as(principal).get(id);
      const { nextOffset = 0, records = [] } = page ?? {};
      return { next_offset: nextOffset, records: records.map(toRecordBody) };
    },
  } satisfies Partial<Handlers>;
}

function toRecordBody({ source, stream, text, timeMs }: LogRecord) {
  return { source, stream, text, time_ms: timeMs };
}
