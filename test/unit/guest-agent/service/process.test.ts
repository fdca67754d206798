// The service with real processes of this machine, over a real socket.
import { type Channel, FLOW, type Result, SERVICE_VERB, ServiceRecordDecoder } from '@sandboxd/proto';
import t from 'tap';
import { until } from '../../../support/until.ts';
import { startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';

if (process.getuid?.() !== 0) t.bailout('the agent runs as root: run these tests as root');

const SPEC = {
  env: ['PATH=/usr/bin:/bin', 'HOME=/root'],
  baseEnv: [],
  makeCwd: false,
  cwd: '',
  user: '',
  stopSignal: 'SIGTERM',
  stopGraceMs: 5000,
  restartPolicy: 'never',
  maxRetries: 0,
  logBufferBytes: 100_000,
};

const call = (channel: Channel, request: Parameters<Channel['open']>[0]): Promise<Result> =>
  new Promise((resolve, reject) => {
    channel.open(request, { result: resolve, lost: ({ kind }) => reject(new Error(kind)) });
  });

function output(channel: Channel): Promise<string> {
  return new Promise((resolve) => {
    const decoder = new ServiceRecordDecoder();
    let text = '';
    const stream = channel.open(
      { serviceOutput: { ring: '', fromSeq: 0, follow: false, wait: false, maxBytes: 0 } },
      {
        data: (flow, chunk) => {
          if (flow !== FLOW.out) return;
          for (const record of decoder.push(Buffer.from(chunk)))
            if (record.kind === 'output') text += `${record.stream}: ${record.data}`;
          stream.consumed(chunk.length);
        },
        result: () => resolve(text),
      },
    );
  });
}

t.test('runs, ends, is stopped or cannot start, and leaves nothing of itself', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const configure = async (...cmd: string[]) =>
    (await call(channel, { serviceConfigure: { spec: { ...SPEC, cmd } } })).serviceStatus;
  const ended = async () => {
    let status: Result['serviceStatus'];
    let isAsking = false;
    await until(() => {
      if (!isAsking) {
        isAsking = true;
        void call(channel, { serviceControl: { verb: SERVICE_VERB.STATUS } }).then((result) => {
          status = result.serviceStatus;
          isAsking = false;
        });
      }
      return status?.state === 'stopped' || status?.state === 'failed';
    }, 'its end');
    return status;
  };

  t.match(await configure('sh', '-c', 'echo out; echo err >&2; exit 3'), { state: String });
  t.match(await ended(), { state: 'failed', lastExit: { exitCode: 3, signal: '' } });
  t.equal((await output(channel)).split('\n').sort().join('|'), '|stderr: err|stdout: out');
  t.equal(agent.cgroups.inUse, 0);
  const before = openDescriptors();

  t.match(await configure('sleep', '60'), { state: 'running', pid: Number });
  t.equal(agent.cgroups.inUse, 1);
  t.match((await call(channel, { serviceControl: { verb: SERVICE_VERB.STOP } })).serviceStatus, {
    state: 'stopped',
    lastExit: { exitCode: 143, signal: 'SIGTERM' },
    lastExitRequested: true,
  });
  t.equal(agent.cgroups.inUse, 0);

  t.match(await configure('/no/such/program'), {
    state: 'failed',
    lastExit: { exitCode: -1, error: /does not exist/ },
  });
  t.equal(agent.cgroups.inUse, 0);
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});
