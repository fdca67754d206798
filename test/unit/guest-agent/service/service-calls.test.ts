// The service's calls as a host uses them, with real processes.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Channel,
  type RequestInput,
  type Result,
  SERVICE_VERB,
  type ServiceRecord,
  ServiceRecordDecoder,
  type ServiceStatus,
  type Stream,
} from '@sandboxd/proto';
import t from 'tap';
import { until } from '../../../support/until.ts';
import { startLocalAgent } from '../support/local-agent.ts';

const SPEC = {
  baseEnv: ['PATH=/usr/bin:/bin', 'A=base'],
  env: ['A=own'],
  stopSignal: 'SIGTERM',
  stopGraceMs: 60_000,
  restartPolicy: 'never',
  logBufferBytes: 65_536,
};

/** The status in a call's response; rejects with `code: message`. */
async function call(channel: Channel, request: RequestInput): Promise<ServiceStatus> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  channel.open(request, { result: resolve, lost: ({ kind }) => reject(new Error(`lost: ${kind}`)) });
  const { error, serviceStatus } = await promise;
  if (error) throw new Error(`${error.code}: ${error.message}`);
  return serviceStatus as ServiceStatus;
}

const configure = (channel: Channel, script: string, changes = {}) =>
  call(channel, { serviceConfigure: { spec: { ...SPEC, cmd: ['sh', '-c', script], ...changes } } });
const control = (channel: Channel, verb: number, graceMs?: number) =>
  call(channel, { serviceControl: { verb, ...(graceMs !== undefined && { graceMs }) } });
const status = (channel: Channel) => control(channel, SERVICE_VERB.STATUS);

type Output = {
  readonly records: ServiceRecord[];
  readonly result: Promise<Result>;
  readonly stream: Stream;
};

function readOutput(channel: Channel, request = {}): Output {
  const decoder = new ServiceRecordDecoder();
  const records: ServiceRecord[] = [];
  const { promise, resolve } = Promise.withResolvers<Result>();
  const stream = channel.open(
    { serviceOutput: { ...request } },
    {
      data: (_flow, chunk) => {
        records.push(...decoder.push(Buffer.from(chunk)));
        stream.consumed(chunk.length);
      },
      result: resolve,
      lost: () => {},
    },
  );
  return { records, result: promise, stream };
}

const textOf = (records: readonly ServiceRecord[], wanted: 'stdout' | 'stderr'): string =>
  records.map((record) => (record.kind === 'output' && record.stream === wanted ? record.data : '')).join('');

t.test('without a service there is a state, and no output unless one waits', async (t) => {
  const channel = await startLocalAgent(t).connect();
  t.match(await status(channel), { state: 'idle', pid: 0, spec: null, lastExit: null });
  const { error } = await readOutput(channel).result;
  t.same(error && { ...error }, {
    code: 'conflict',
    message: 'no service is configured; configure one first',
  });
  await t.rejects(call(channel, { serviceConfigure: {} }), { message: 'invalid: the spec is missing' });
  const waiting = readOutput(channel, { follow: true, wait: true });
  await configure(channel, 'echo hello; echo oops >&2');
  await until(() => textOf(waiting.records, 'stderr') === 'oops\n', 'its output');
  t.equal(textOf(waiting.records, 'stdout'), 'hello\n');
  waiting.stream.cancel();
});

t.test('one that runs has a process with memory; a stop ends it as asked', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = Date.now();
  const running = await configure(channel, 'trap "exit 7" TERM; echo $A $B; while :; do sleep 0.01; done', {
    env: ['A=own', 'B=too'],
  });
  t.equal(running.state, 'running');
  t.ok(running.pid > 1 && existsSync(`/proc/${running.pid}`));
  t.ok(running.startedUnixMs >= before && running.startedUnixMs <= Date.now());
  t.equal(running.lastExit, null);
  t.match(running.ring, { id: /^[0-9a-f]{16}$/, firstSeq: 0 });
  t.equal(agent.cgroups.inUse, 1);
  const output = readOutput(channel, { follow: true });
  await until(() => textOf(output.records, 'stdout') === 'own too\n', 'its output');
  output.stream.cancel();
  const later = await status(channel);
  t.equal(later.pid, running.pid);
  t.ok(later.liveRssBytes > 100_000 && later.livePeakRssBytes >= later.liveRssBytes);
  const stopped = await control(channel, SERVICE_VERB.STOP);
  t.match(stopped, { state: 'stopped', pid: 0, lastExitRequested: true });
  t.match(stopped.lastExit, { exitCode: 7, signal: '', oomKilled: false });
  t.ok(Number(stopped.lastExit?.durationUs) > 0);
  t.notOk(existsSync(`/proc/${running.pid}`));
  t.equal(agent.cgroups.inUse, 0);
  t.same(agent.faults, []);
});

t.test('a stop with a grace of its own kills what ignores the signal', async (t) => {
  const channel = await startLocalAgent(t).connect();
  await configure(channel, 'trap "" TERM; echo ready; while :; do sleep 0.01; done');
  const output = readOutput(channel, { follow: true });
  await until(() => textOf(output.records, 'stdout') === 'ready\n', 'the trap');
  const stopped = await control(channel, SERVICE_VERB.STOP, 50);
  t.match(stopped, {
    state: 'stopped',
    lastExitRequested: true,
    lastExit: { exitCode: 137, signal: 'SIGKILL' },
  });
  output.stream.cancel();
});

t.test('start and restart are new runs of the same spec, with one log', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const first = await configure(channel, 'echo run; exec sleep 600');
  const output = readOutput(channel, { follow: true });
  const hasRun = (times: number) =>
    until(() => textOf(output.records, 'stdout') === 'run\n'.repeat(times), `run ${times}`);
  await hasRun(1);
  const again = await control(channel, SERVICE_VERB.RESTART);
  t.equal(again.state, 'running');
  t.not(again.pid, first.pid);
  t.equal(again.ring?.id, first.ring?.id);
  t.match(again.lastExit, { signal: 'SIGTERM', exitCode: 143 });
  await hasRun(2);
  await control(channel, SERVICE_VERB.STOP);
  t.match(await control(channel, SERVICE_VERB.START), { state: 'running' });
  await hasRun(3);
  await control(channel, SERVICE_VERB.STOP);
  output.stream.cancel();
});

t.test('output is read from where the reader was, of its log or of the newest', async (t) => {
  const channel = await startLocalAgent(t).connect();
  await configure(channel, 'for i in 1 2 3; do echo $i; sleep 0.05; done');
  let ended = await status(channel);
  while (ended.state !== 'stopped') ended = await status(channel);
  const { id } = ended.ring!;
  const nextSeq = Number(ended.ring?.nextSeq);
  t.ok(nextSeq >= 1);
  const whole = readOutput(channel, { ring: id });
  t.match(await whole.result, { serviceOutput: { ring: { id }, nextSeq } });
  t.equal(textOf(whole.records, 'stdout'), '1\n2\n3\n');
  const rest = readOutput(channel, { ring: id, fromSeq: nextSeq - 1 });
  await rest.result;
  t.match(
    rest.records.flatMap((record) => (record.kind === 'output' ? [record.seq] : [])),
    [nextSeq - 1],
  );
  const unknown = readOutput(channel, { ring: 'f'.repeat(16), fromSeq: nextSeq });
  await unknown.result;
  t.equal(
    textOf(unknown.records, 'stdout'),
    '1\n2\n3\n',
    'a log that is gone: the newest from its beginning',
  );
});

t.test('what cannot be run fails with its reason, and leaves nothing', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const gone = await configure(channel, '', { cmd: ['/no/such/program'] });
  t.equal(gone.state, 'failed');
  t.match(gone.lastExit, { exitCode: -1, error: /"\/no\/such\/program" does not exist/ });
  t.equal(agent.cgroups.inUse, 0);
  for (const [changes, message] of [
    [{ cmd: [] }, 'invalid: cmd is empty'],
    [{ cmd: [''] }, 'invalid: cmd is empty'],
    [{ stopSignal: 'SIGNO' }, 'invalid: there is no signal "SIGNO"'],
    [{ restartPolicy: 'daily' }, 'invalid: there is no restart policy "daily"'],
    [{ logBufferBytes: 2 ** 24 + 1 }, `invalid: a log buffer of ${2 ** 24 + 1} bytes is over ${2 ** 24}`],
  ] as const) {
    await t.rejects(configure(channel, 'true', changes), { message });
  }
});

t.test('a directory is made where the spec says so, and only there', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const dir = mkdtempSync(join(tmpdir(), 'service-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const cwd = join(dir, 'made/below');
  t.equal((await configure(channel, 'pwd', { cwd })).state, 'failed');
  t.notOk(existsSync(cwd));
  await configure(channel, 'pwd; exec sleep 600', { cwd, makeCwd: true });
  const output = readOutput(channel, { follow: true });
  await until(() => textOf(output.records, 'stdout') === `${cwd}\n`, 'its directory');
  await control(channel, SERVICE_VERB.STOP);
  output.stream.cancel();
});
