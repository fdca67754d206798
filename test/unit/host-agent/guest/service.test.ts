// The service calls: their requests, and the validation of the answers.
import type { ServiceSpec } from '@sandboxd/api';
import {
  AgentError,
  encodeGap,
  FLOW,
  MAX_SERVICE_RECORD_BYTES,
  type RequestInput,
  type Result,
  SERVICE_HEADER_BYTES,
  SERVICE_RECORD,
  SERVICE_VERB,
  type Stream,
  type StreamHandlers,
  writeServiceHeader,
} from '@sandboxd/proto';
import t from 'tap';
import { GuestService, type OutputEvents } from '../../../../host-agent/src/guest/service.ts';

const SPEC: ServiceSpec = {
  cmd: ['serve', '-v'],
  env: { A: '1', B: 'x=y' },
  env_exact: false,
  cwd: '/srv',
  user: 'www',
  stop_signal: 'SIGINT',
  stop_grace_s: 7,
  restart: { policy: 'on-failure', max_retries: 3 },
  log_buffer_bytes: 65_536,
};
const WIRE = {
  ...{ cmd: ['serve', '-v'], env: ['A=1', 'B=x=y'], cwd: '/srv', user: 'www', stopSignal: 'SIGINT' },
  ...{ stopGraceMs: 7000, restartPolicy: 'on-failure', maxRetries: 3, logBufferBytes: 65_536 },
};

/** A service whose guest answers each call with `status`. */
function openService(status: object | undefined) {
  const asked: RequestInput[] = [];
  const service = new GuestService({
    call: async (request) => {
      asked.push(request);
      return { serviceStatus: status } as Result;
    },
    open: () => t.fail('not asked for') as never,
  });
  return { service, asked };
}

t.test('a spec travels whole, and comes back as it was asked for', async (t) => {
  const { service, asked } = openService({
    state: 'running',
    spec: { ...WIRE, baseEnv: ['PATH=/bin'], makeCwd: false },
    ring: { id: '0123456789abcdef0000', firstSeq: 1, nextSeq: 5, droppedRecords: 2, droppedBytes: 30 },
    ...{ restarts: 4, pid: 12, startedUnixMs: 1000, uptimeMs: 50, liveRssBytes: 7, livePeakRssBytes: 8 },
    lastExit: { exitCode: 3, durationUs: 2000, signal: '', error: '', agentUs: 0 },
    ...{ lastExitUnixMs: 900, lastExitRequested: true },
  });
  const status = await service.configure(SPEC, { PATH: '/bin' });
  t.same(asked, [{ serviceConfigure: { spec: { ...WIRE, baseEnv: ['PATH=/bin'], makeCwd: false } } }]);
  t.same(status, {
    state: 'running',
    spec: SPEC,
    ring: { id: '0123456789abcdef', firstSeq: 1, nextSeq: 5, droppedRecords: 2, droppedBytes: 30 },
    ...{ restarts: 4, pid: 12, startedUnixMs: 1000, uptimeMs: 50, liveRssBytes: 7, livePeakRssBytes: 8 },
    lastExit: { exitCode: 3, durationMs: 2 },
    ...{ lastExitUnixMs: 900, isLastExitRequested: true },
  });
});

t.test('the directory of a service with an exact environment is made', async (t) => {
  const { service, asked } = openService({
    ...{ state: 'stopped', pid: 0, uptimeMs: 9, liveRssBytes: 9, restarts: 0 },
    spec: { ...WIRE, makeCwd: true, cwd: '', user: '', stopSignal: 'SIGNONE', restartPolicy: 'perhaps' },
  });
  const { cwd: _cwd, user: _user, ...spec } = SPEC;
  const status = await service.configure({ ...spec, env_exact: true }, {});
  t.match(asked, [{ serviceConfigure: { spec: { baseEnv: [], makeCwd: true, cwd: '', user: '' } } }]);
  t.same(status, {
    state: 'stopped',
    spec: {
      ...{ ...spec, env_exact: true },
      ...{ stop_signal: 'SIGTERM', restart: { policy: 'never', max_retries: 3 } },
    },
    ring: { id: '', firstSeq: 0, nextSeq: 0, droppedRecords: 0, droppedBytes: 0 },
    restarts: 0,
  });
});

t.test('each verb has its number, and a grace goes with the one that names it', async (t) => {
  const { service, asked } = openService({ state: 'idle', pid: 0 });
  for (const verb of ['status', 'start', 'restart'] as const)
    t.same(await service.control(verb), { state: 'idle' });
  await service.control('stop', 0);
  t.same(asked, [
    { serviceControl: { verb: SERVICE_VERB.STATUS } },
    { serviceControl: { verb: SERVICE_VERB.START } },
    { serviceControl: { verb: SERVICE_VERB.RESTART } },
    { serviceControl: { verb: SERVICE_VERB.STOP, graceMs: 0 } },
  ]);
});

t.test('invalid responses and refusals have errors of their own', async (t) => {
  await t.rejects(openService(undefined).service.control('status'), {
    code: 'guest_unreachable',
    message: 'the guest agent gave no status',
  });
  await t.rejects(openService({ state: 'dancing', pid: 0 }).service.control('status'), {
    code: 'guest_unreachable',
    message: 'the guest agent gave an unknown service state',
  });
  const refusing = (error: Error) =>
    new GuestService({ call: () => Promise.reject(error), open: () => t.fail('not asked for') as never });
  const conflict = refusing(new AgentError('conflict', 'no service is configured'));
  await t.rejects(conflict.control('start'), { code: 'conflict', message: 'no service is configured' });
  const busy = refusing(new AgentError('busy', 'later'));
  await t.rejects(busy.configure(SPEC, {}), {
    code: 'guest_unreachable',
    message: 'the guest agent could not do it: later',
  });
});

/** A reader of output, and the guest's side: calls of its handlers arrive at the reader. */
function openOutput(request: Parameters<GuestService['output']>[0]) {
  const asked: RequestInput[] = [];
  const said: string[] = [];
  const seen: unknown[] = [];
  let handlers: StreamHandlers = {};
  const stream = {
    consumed: (bytes: number) => said.push(`consumed ${bytes}`),
    cancel: () => said.push('cancel'),
  };
  const service = new GuestService({
    call: () => t.fail('not asked for') as never,
    open: (request, wanted) => {
      asked.push(request);
      handlers = wanted;
      return stream as unknown as Stream;
    },
  });
  const events: OutputEvents = {
    records: (records, bytes) => seen.push({ records, bytes }),
    end: (end) => seen.push({ end }),
    failed: ({ code, message }) => seen.push({ code, message }),
  };
  const subscription = service.output(request, events);
  return { subscription, handlers, asked, said, seen };
}

function recordOf(seq: number, text: string): Buffer {
  const record = Buffer.concat([Buffer.alloc(SERVICE_HEADER_BYTES), Buffer.from(text)]);
  writeServiceHeader(record, 0, { type: SERVICE_RECORD.stderr, sizeBytes: text.length, seq, unixMs: 5 });
  return record;
}

const NO_RING = { id: '', firstSeq: 0, nextSeq: 0, droppedRecords: 0, droppedBytes: 0 };

t.test('output comes as records, however it is cut, and every byte of it can be given back', async (t) => {
  const { subscription, handlers, asked, said, seen } = openOutput({
    ...{ ring: 'r', fromSeq: 3, isFollowing: true, isWaiting: false, maxBytes: 100 },
  });
  t.same(asked, [{ serviceOutput: { ring: 'r', fromSeq: 3, follow: true, wait: false, maxBytes: 100 } }]);
  const bytes = Buffer.concat([recordOf(3, 'hello'), encodeGap(9, 5, 60)]);
  // The bytes are valid only during the call: their owner reuses the memory.
  for (const chunk of [bytes.subarray(0, 10), bytes.subarray(10, 40), bytes.subarray(40)]) {
    const lent = Buffer.from(chunk);
    handlers.data?.(FLOW.out, lent);
    lent.fill(0);
  }
  handlers.data?.(FLOW.err, Buffer.alloc(8));
  const output = { kind: 'output', stream: 'stderr', seq: 3, unixMs: 5, data: Buffer.from('hello') };
  t.same(seen.splice(0), [
    { records: [], bytes: 10 },
    { records: [output], bytes: 30 },
    { records: [{ kind: 'gap', seq: 9, records: 5, bytes: 60 }], bytes: bytes.length - 40 },
    { records: [], bytes: 8 },
  ]);
  subscription.consumed(0);
  subscription.consumed(48);
  t.same(said, ['consumed 48'], 'no credit of nothing');
  const ring = { ...NO_RING, id: 'f'.repeat(16), nextSeq: 9 };
  handlers.result?.({ serviceOutput: { ring, nextSeq: 9 } } as unknown as Result);
  handlers.data?.(FLOW.out, recordOf(4, 'late'));
  handlers.result?.({ serviceOutput: { ring, nextSeq: 10 } } as unknown as Result);
  subscription.consumed(9);
  subscription.cancel();
  t.same([seen, said], [[{ end: { ring, nextSeq: 9 } }], ['consumed 48']], 'what has ended says no more');
});

t.test('a reading that fails says so once; one that is given up says nothing', async (t) => {
  const plain = { isFollowing: false, isWaiting: true };
  const lost = () => ({ kind: 'lost', cause: new Error('broken pipe') }) as const;
  const refused = openOutput(plain);
  t.same(refused.asked, [
    { serviceOutput: { ring: '', fromSeq: 0, follow: false, wait: true, maxBytes: 0 } },
  ]);
  refused.handlers.result?.({ error: { code: 'conflict', message: 'none' } } as unknown as Result);
  refused.handlers.lost?.(lost());
  const broken = openOutput(plain);
  broken.handlers.lost?.(lost());
  const given = openOutput(plain);
  given.subscription.cancel();
  given.subscription.cancel();
  given.handlers.lost?.(lost());
  given.handlers.data?.(FLOW.out, recordOf(1, 'late'));
  given.handlers.result?.({} as Result);
  const empty = openOutput(plain);
  empty.handlers.result?.({} as Result);
  await new Promise((resolve) => setImmediate(resolve));
  t.same(refused.seen, [{ code: 'conflict', message: 'none' }]);
  t.same(broken.seen, [
    { code: 'guest_unreachable', message: 'the guest agent was lost while output was read: broken pipe' },
  ]);
  t.same([given.seen, given.said], [[], ['cancel']]);
  t.same(empty.seen, [{ end: { ring: NO_RING, nextSeq: 0 } }]);
});

t.test('a page of output has a most of bytes, and a reading without a limit none', async (t) => {
  const request = { isFollowing: false, isWaiting: false };
  const most = 10 * (SERVICE_HEADER_BYTES + 1) + MAX_SERVICE_RECORD_BYTES + 64 * 1024;
  const page = openOutput({ ...request, maxBytes: 10 });
  page.handlers.data?.(FLOW.err, Buffer.alloc(most));
  t.same([page.seen, page.said], [[{ records: [], bytes: most }], []]);
  page.handlers.data?.(FLOW.err, Buffer.alloc(1));
  page.handlers.data?.(FLOW.err, Buffer.alloc(1));
  t.match(page.seen.slice(1), [
    { code: 'guest_unreachable', message: 'the guest agent gave more output than it was asked for' },
  ]);
  t.same([page.seen.length, page.said], [2, ['cancel']]);
  for (const maxBytes of [0, undefined]) {
    const endless = openOutput({ ...request, ...(maxBytes !== undefined && { maxBytes }) });
    endless.handlers.data?.(FLOW.err, Buffer.alloc(most + 1));
    t.same(endless.seen, [{ records: [], bytes: most + 1 }]);
  }
});

t.test('a status has the values of the guest, in whole seconds and within bounds', async (t) => {
  const live = { pid: 1, uptimeMs: 2 ** 70, liveRssBytes: -1, livePeakRssBytes: 8 };
  const { service } = openService({
    ...{ state: 'running', restarts: -5, startedUnixMs: 0, ...live },
    spec: { ...WIRE, stopGraceMs: 7999, makeCwd: false },
  });
  const status = await service.control('status');
  t.match(status, { pid: 1, restarts: 0, uptimeMs: Number.MAX_SAFE_INTEGER, liveRssBytes: 0 });
  t.equal(status.spec?.stop_grace_s, 7);
  t.same([status.startedUnixMs, status.lastExit, status.ring?.id], [undefined, undefined, '']);
});
