// The status of a service as JSON: the state, and the other fields if they have a value.
import type { ServiceSpec } from '@sandboxd/api';
import type { ServiceStatus } from '../../guest/service-types.ts';
import { toExecResultBody } from '../exec/exec-result.ts';

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
