// The supervised service over HTTP: its status as JSON, and pages of its output.
import type { ServiceRecord } from '@sandboxd/proto';
import t from 'tap';
import type { OutputEvents, ServiceOutputRequest } from '../../../../../host-agent/src/guest/service.ts';
import { readOutputPage, toStatusBody } from '../../../../../host-agent/src/http/routes/service.ts';
import type { SandboxService } from '../../../../../host-agent/src/sandboxes/service.ts';
import { until } from '../../../../support/until.ts';

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

// A page of the service's output, from a guest that sends no more than a window ahead of its reader.

const WINDOW_BYTES = 1000;
const RECORD_BYTES = 300;
const RING = { id: 'r', firstSeq: 0, nextSeq: 20, droppedRecords: 0, droppedBytes: 0 };
const NEVER = new AbortController().signal;

/** A guest with so many records; those beyond the window wait for credit. */
function guestWith(records: number) {
  const seen = { isCancelled: false, sent: 0 };
  const output = (_request: ServiceOutputRequest, events: OutputEvents) => {
    let credit = WINDOW_BYTES;
    const send = (): void => {
      if (seen.isCancelled) return;
      for (; seen.sent < records && credit >= RECORD_BYTES; credit -= RECORD_BYTES) {
        const record: ServiceRecord = {
          kind: 'output',
          stream: 'stdout',
          seq: seen.sent++,
          unixMs: 1,
          data: Buffer.from('x'),
        };
        events.records([record], RECORD_BYTES);
      }
      if (seen.sent === records) events.end({ ring: RING, nextSeq: records });
    };
    queueMicrotask(send);
    return {
      consumed: (bytes: number) => {
        credit += bytes;
        queueMicrotask(send);
      },
      cancel: () => {
        seen.isCancelled = true;
      },
    };
  };
  return { seen, service: { output } as unknown as Pick<SandboxService, 'output'> };
}

t.test('a page that is longer than the window comes whole', async (t) => {
  const { service } = guestWith(20);
  let page: Awaited<ReturnType<typeof readOutputPage>> | undefined;
  void readOutputPage(service, { fromSeq: 0, maxBytes: 10_000 }, NEVER).then((read) => {
    page = read;
  });
  await until(() => page !== undefined, 'the page');
  t.equal(page?.records?.length, 20);
  t.equal(page?.next_seq, 20);
});

t.test('a client that leaves, or has left, ends the reading', async (t) => {
  const left = new AbortController();
  const { service, seen } = guestWith(0);
  seen.sent = -1;
  const reading = readOutputPage(service, { fromSeq: 0, maxBytes: 10_000 }, left.signal);
  left.abort(new Error('the client left'));
  await t.rejects(reading, { message: 'the client left' });
  t.ok(seen.isCancelled);
  const late = guestWith(0);
  await t.rejects(
    readOutputPage(late.service, { fromSeq: 0, maxBytes: 1 }, AbortSignal.abort(new Error('long ago'))),
    { message: 'long ago' },
  );
  t.ok(late.seen.isCancelled);
});

t.test('a page has its records, the total of dropped ones, and the next position', async (t) => {
  const gap = (records: number, bytes: number): ServiceRecord => ({ kind: 'gap', seq: 1, records, bytes });
  const out: ServiceRecord = { kind: 'output', stream: 'stderr', seq: 2, unixMs: 5, data: Buffer.from('x') };
  const read = (...records: ServiceRecord[]) => {
    const asked: ServiceOutputRequest[] = [];
    const output = (request: ServiceOutputRequest, events: OutputEvents) => {
      asked.push(request);
      queueMicrotask(() => {
        events.records(records, 1);
        events.end({ ring: { ...RING, firstSeq: 4 }, nextSeq: 7 });
      });
      return { consumed: () => undefined, cancel: () => undefined };
    };
    const service = { output } as unknown as Pick<SandboxService, 'output'>;
    return readOutputPage(service, { fromSeq: 3, maxBytes: 9 }, NEVER).then((page) => ({ page, asked }));
  };
  const { page, asked } = await read({ kind: 'ring', seq: 0, id: 'r' }, gap(1, 10), out, gap(2, 20));
  t.same(asked, [{ fromSeq: 3, maxBytes: 9, isFollowing: false, isWaiting: false }]);
  t.same(page, {
    records: [{ seq: 2, stream: 'stderr', unix_ms: 5, data: 'eA==' }],
    next_seq: 7,
    first_seq: 4,
    dropped_records: 3,
    dropped_bytes: 30,
  });
  t.same((await read()).page, { records: null, next_seq: 7, first_seq: 4 });
});
