// The status of a service as JSON: what is known, by its name and in its unit, and nothing else.
import t from 'tap';
import { toStatusBody } from '../../../../../host-agent/src/http/routes/service.ts';

const SPEC = {
  cmd: ['serve'],
  env: {},
  env_exact: false,
  log_buffer_bytes: 1024,
  restart: { policy: 'always', max_retries: 0 },
  stop_grace_s: 5,
  stop_signal: 'SIGTERM',
} as unknown as NonNullable<Parameters<typeof toStatusBody>[0]['spec']>;
const PLAIN_SPEC = {
  cmd: ['serve'],
  log_buffer_bytes: 1024,
  restart: { policy: 'always' },
  stop_grace_s: 5,
  stop_signal: 'SIGTERM',
};

t.test('a service that never ran has only a state', async (t) => {
  t.same(toStatusBody({ state: 'idle' }), { state: 'idle' });
});

t.test('all that is known, zeros too', async (t) => {
  const ring = { id: 'r', firstSeq: 0, nextSeq: 7, droppedRecords: 2, droppedBytes: 30 };
  const status = {
    state: 'running' as const,
    pid: 10,
    restarts: 0,
    spec: SPEC,
    startedUnixMs: 1000,
    uptimeMs: 0,
    lastExit: {
      exitCode: 3,
      durationMs: 1.6,
      signal: 'SIGKILL',
      timedOut: true,
      oomKilled: true,
      error: 'e',
    },
    lastExitUnixMs: 900,
    isLastExitRequested: false,
    liveRssBytes: 5,
    livePeakRssBytes: 6,
    ring,
  };
  t.same(toStatusBody(status), {
    state: 'running',
    pid: 10,
    restarts: 0,
    spec: PLAIN_SPEC,
    started_at_unix_ms: 1000,
    uptime_ms: 0,
    last_exit: {
      exit_code: 3,
      duration_ms: 2,
      signal: 'SIGKILL',
      timed_out: true,
      oom_killed: true,
      error: 'e',
    },
    last_exit_at_unix_ms: 900,
    last_exit_requested: false,
    live_rss_bytes: 5,
    live_peak_rss_bytes: 6,
    log_dropped_bytes: 30,
    log_first_seq: 0,
    log_next_seq: 7,
  });
});

t.test('a spec shows what was requested, without defaults', async (t) => {
  const spec = {
    ...SPEC,
    cwd: '/srv',
    env: { A: '1' },
    env_exact: true,
    user: 'www',
    restart: { policy: 'on-failure', max_retries: 3 },
  } as unknown as typeof SPEC;
  t.same(toStatusBody({ state: 'stopped', spec }).spec, {
    ...PLAIN_SPEC,
    cwd: '/srv',
    env: { A: '1' },
    env_exact: true,
    user: 'www',
    restart: { policy: 'on-failure', max_retries: 3 },
  });
});
