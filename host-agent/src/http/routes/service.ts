// The supervised service: status, configure, start, stop, restart, output.
import { DEFAULT_OUTPUT_PAGE_BYTES, MAX_OUTPUT_PAGE_BYTES, type ServiceSpec } from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import type { ServiceOutputEnd, ServiceStatus } from '../../guest/service.ts';
import type { SandboxService } from '../../sandboxes/service.ts';
import { clientSignal, guestOf, type HttpContext } from '../context.ts';
import { toExecResultBody } from '../exec/exec-run.ts';
import { asFrames, asLines, OutputStream } from '../output-stream.ts';
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
