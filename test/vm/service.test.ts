// The supervised service on a real guest: a server, one that will not end, one that crashes, one that never stops
// talking; commands that overlap; its output in both forms.
import { setTimeout as sleep } from 'node:timers/promises';
import { EXEC_FRAME, ExecFrameDecoder } from '@sandboxd/api';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { ServiceClient } from '../support/service.ts';
import { settled } from '../support/settled.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const { api } = await startDaemon(t);
const { id } = await api.create();
const service = new ServiceClient(api, id);
const shell = (script: string) => ['sh', '-c', script];
const alive = async (name: string): Promise<string> => api.sh(id, `pgrep -c -x ${name} || true`);

t.test('without a service there is only the state', async (t) => {
  t.same(await service.status(), { state: 'idle' });
  await t.rejects(service.post('start'), { status: 409, message: /no service/ });
  await t.rejects(service.post('restart'), { status: 409, message: /no service/ });
  t.same(await service.post('stop'), { state: 'idle' });
  t.equal((await api.fetch(`/sandboxes/${id}/service/logs`)).status, 409);
  await t.rejects(service.page(), { status: 409, message: /no service/ });
});

t.test('a server that is configured at creation serves, restarts and stops', async (t) => {
  const cmd = ['python3', '-u', '-m', 'http.server', '8000'];
  const created = await api.create({
    profile: 'python-3.11',
    service: { cmd, cwd: '/srv', env: { MARK: 'x' }, user: 'nobody' },
  });
  const server = new ServiceClient(api, created.id);
  const status = await server.status();
  t.match(status, {
    state: 'running',
    restarts: 0,
    spec: {
      cmd,
      cwd: '/srv',
      env: { MARK: 'x' },
      user: 'nobody',
      stop_signal: 'SIGTERM',
      stop_grace_s: 10,
      restart: { policy: 'never' },
      log_buffer_bytes: 2 ** 21,
    },
  });
  await server.logged('Serving HTTP');
  const get = `python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/').status)"`;
  t.equal(await api.sh(created.id, get), '200');
  t.equal(
    await api.sh(
      created.id,
      `stat -c %U /proc/${status.pid}; tr '\\0' '\\n' </proc/${status.pid}/environ | grep MARK`,
    ),
    'nobody\nMARK=x',
  );
  const now = await server.status();
  t.ok((now.live_rss_bytes ?? 0) > 5_000_000 && (now.live_peak_rss_bytes ?? 0) >= (now.live_rss_bytes ?? 0));

  const again = await server.post('restart');
  const running = again.state === 'running' ? again : await server.reaches('running');
  t.not(running.pid, status.pid);
  t.match(running, {
    restarts: 0,
    last_exit: { exit_code: 143, signal: 'SIGTERM' },
    last_exit_requested: true,
  });
  t.equal(Object.keys(running.last_exit?.usage ?? {}).length, 7);
  t.ok((await server.page()).next_seq > 0, 'the output of before the restart is still there');
  await server.logged(/Serving HTTP[\s\S]*Serving HTTP/);
  await server.post('stop');
  t.match(await server.reaches('stopped'), { last_exit_requested: true });
  t.notOk('pid' in (await server.status()));
  await api.delete(created.id);
  t.match((await server.wholeLog('&source=service')).records[0]?.text, /Serving HTTP/, 'its log outlives it');
});

t.test('a service whose program cannot start still makes a sandbox', async (t) => {
  const created = await api.create({ service: { cmd: ['/no/such/program'], restart: { policy: 'always' } } });
  t.match(await new ServiceClient(api, created.id).status(), {
    state: 'failed',
    last_exit: { exit_code: -1, error: /no\/such\/program/ },
  });
  await api.delete(created.id);
});

t.test('one that ignores its signal is killed after the grace, with all its children', async (t) => {
  const script = `trap '' TERM; sleep 1001 & setsid sh -c 'sleep 1002 & sleep 1003' & while :; do sleep 1004; done`;
  await service.put({ cmd: shell(script), stop_grace_s: 2 });
  await service.reaches('running');
  // It ignores the signal from then on.
  while ((await alive('sleep')) === '0') await sleep(50);
  const stopping = await service.post('stop');
  t.equal(stopping.state, 'stopping', 'answered after a second with the state then');
  t.match(await service.reaches('stopped'), {
    last_exit: { exit_code: 137, signal: 'SIGKILL' },
    last_exit_requested: true,
  });
  t.equal(await alive('sleep'), '0', 'the whole tree is gone');
  await service.post('start');
  await service.reaches('running');
  while ((await alive('sleep')) === '0') await sleep(50);
  const graceful = await service.post('stop', { grace_s: 0 });
  t.equal(graceful.state, 'stopping', '0 is the grace of the spec');
  await service.reaches('stopped');
});

t.test('commands that overlap end as the last one wants', async (t) => {
  const stubborn = { cmd: shell(`trap '' TERM; echo up $$; while :; do sleep 0.1; done`), stop_grace_s: 3 };
  // From then on it does not obey.
  const isUp = (times: number) => service.reaches('running', ({ log_next_seq = 0 }) => log_next_seq >= times);
  const first = await service.put(stubborn);
  await isUp(1);
  t.equal((await service.post('start')).pid, first.pid, 'starting what runs changes nothing');
  t.equal((await service.post('restart')).state, 'stopping');
  await service.post('stop', { grace_s: 1 });
  await service.reaches('stopped'); // a stop during a restart

  await service.post('start');
  await isUp(2);
  t.equal((await service.post('stop')).state, 'stopping');
  const other = await service.put({ cmd: shell('echo other; exec sleep 1000') });
  t.match(other.spec?.cmd, shell('echo other; exec sleep 1000'));
  const running = await service.reaches('running');
  t.equal(
    await api.sh(id, `tr '\\0' ' ' </proc/${running.pid}/cmdline`),
    'sleep 1000',
    'a PUT during a stop',
  );
  t.equal((await service.page()).first_seq, 0, 'with a ring of its own');

  await service.post('stop', { grace_s: 5 });
  await service.put(stubborn);
  await isUp(1);
  t.equal((await service.post('stop')).state, 'stopping');
  await service.post('start');
  t.match(await service.reaches('running'), { last_exit_requested: true }, 'a start during a stop');
  await service.post('stop', { grace_s: 1 });
  await service.reaches('stopped');
});

t.test('one that crashes at once is retried with longer and longer pauses, then failed', async (t) => {
  const started = performance.now();
  await service.put({ cmd: shell('echo run; exit 3'), restart: { policy: 'on-failure', max_retries: 3 } });
  t.match(await service.reaches('failed'), {
    restarts: 3,
    last_exit: { exit_code: 3 },
    last_exit_requested: false,
  });
  t.ok(performance.now() - started >= 700, 'after 100, 200 and 400 ms');
  const { records } = await service.page();
  t.equal(records?.map(({ data }) => Buffer.from(data, 'base64').toString()).join(''), 'run\n'.repeat(4));
  await service.put({ cmd: ['true'], restart: { policy: 'on-failure' } });
  t.match(
    await service.reaches('stopped'),
    { restarts: 0, last_exit: { exit_code: 0 } },
    'success is no failure',
  );
  await service.put({ cmd: ['true'], restart: { policy: 'always' } });
  await service.reaches('backing_off', ({ restarts = 0 }) => restarts >= 3);
  t.equal((await service.post('stop')).state, 'stopped', 'a stop ends the pause');
  await service.put({ cmd: ['false'] });
  t.match(await service.reaches('failed'), { last_exit: { exit_code: 1 } }, 'without a policy it stays so');
});

t.test('env_exact is exact, and makes the working directory', async (t) => {
  await service.put({
    cmd: shell('env | sort; pwd'),
    env: { ONLY: '1' },
    env_exact: true,
    cwd: '/made/for/it',
  });
  await service.reaches('stopped');
  const { records } = await service.page();
  const text = records?.map(({ data }) => Buffer.from(data, 'base64').toString()).join('') ?? '';
  t.same(
    text.split('\n').filter((line) => !line.startsWith('PWD=') && !line.startsWith('_=') && line !== ''),
    [
      'HOME=/root',
      'ONLY=1',
      'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      '/made/for/it',
    ],
  );
});

t.test('its output is followed live, and ends at the present when asked', async (t) => {
  await service.put({
    cmd: shell('n=0; while :; do n=$((n+1)); echo out $n; echo err $n >&2; sleep 0.2; done'),
  });
  await service.logged('out 2');
  const present = await api.fetch(`/sandboxes/${id}/service/logs?follow=0`);
  t.match(Buffer.from(await present.arrayBuffer()).toString(), /out 1/);
  const controller = new AbortController();
  const response = await api.fetch(`/sandboxes/${id}/service/logs`, { signal: controller.signal });
  const decoder = new ExecFrameDecoder();
  const texts = { 1: '', 2: '' };
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    for (const { type, payload } of decoder.push(chunk)) texts[type as 1 | 2] += payload.toString();
    if (texts[EXEC_FRAME.stdout].includes('out 8') && texts[EXEC_FRAME.stderr].includes('err 8')) break;
  }
  controller.abort();
  const lines = (name: string) => Array.from({ length: 8 }, (_, n) => `${name} ${n + 1}\n`).join('');
  t.ok(texts[1].startsWith(lines('out')) && texts[2].startsWith(lines('err')), 'from the start, in order');
});

t.test(
  'a service that writes without end is never blocked, and loses only output that does not fit',
  async (t) => {
    // What yes writes without a reader in the way, and as a service, in the same time.
    await service.put({ cmd: ['yes', '0123456789abcdef'.repeat(4)], log_buffer_bytes: 1_000_000 });
    const slow = new AbortController();
    const unread = await api.fetch(`/sandboxes/${id}/service/logs`, { signal: slow.signal });
    const first = await service.status();
    let status = first;
    const writtenBytes = () => (status.log_dropped_bytes ?? 0) - (first.log_dropped_bytes ?? 0);
    for (let tries = 0; tries < scaled(120) && writtenBytes() <= 3_000_000; tries++) {
      await sleep(500);
      status = await service.status();
    }
    t.equal(status.state, 'running');
    t.ok(writtenBytes() > 3_000_000, `it wrote on: ${writtenBytes()} bytes more than its buffer has`);
    t.ok((status.log_first_seq ?? 0) > 0 && (status.log_next_seq ?? 0) > (status.log_first_seq ?? 0));
    const page = await service.page('&max_bytes=100000');
    t.ok(
      (page.dropped_records ?? 0) > 0 && (page.dropped_bytes ?? 0) > 0,
      JSON.stringify({ ...page, records: [] }),
    );
    const sizeBytes =
      page.records?.reduce((sum, { data }) => sum + Buffer.byteLength(data, 'base64'), 0) ?? 0;
    t.ok(sizeBytes > 0 && sizeBytes <= 100_000);
    t.equal(await api.sh(id, 'echo still here'), 'still here');
    await service.post('stop');
    await service.reaches('stopped');

    let noticed = '';
    const decoder = new ExecFrameDecoder();
    for await (const chunk of unread.body as ReadableStream<Uint8Array>) {
      for (const { type, payload } of decoder.push(chunk)) if (type === EXEC_FRAME.stderr) noticed += payload;
      if (noticed !== '') break;
    }
    slow.abort();
    t.match(noticed, /\d+ bytes of output were dropped here/, 'a slow reader sees what it missed');
  },
);

t.test('a reader does not hold up the daemon’s end', async (t) => {
  // Nor would requests be given up before the test is.
  const flags = ['--drain-timeout-s', '3600'];
  const other = await startDaemon(t, { flags });
  const created = await other.api.create({ service: { cmd: ['sleep', '1000'] } });
  const response = await other.api.fetch(`/sandboxes/${created.id}/service/logs`);
  const ended = other.end();
  t.equal((await response.arrayBuffer()).byteLength, 0);
  t.equal(await ended, 0);
});

t.test('the agent keeps nothing of what is over', async (t) => {
  await service.put({ cmd: ['true'] });
  await service.reaches('stopped');
  const left = async (): Promise<string[]> => {
    const cgroups = Number(await api.sh(id, 'ls -d /sys/fs/cgroup/exec/*/ | wc -l'));
    const zombies = await api.sh(id, "ps -eo stat= | grep -c '^Z' || true");
    return [
      ...(cgroups <= 2 ? [] : [`${cgroups} cgroups`]),
      ...(zombies === '0' ? [] : [`${zombies} zombies`]),
    ];
  };
  t.same(await settled(left), []);
});
