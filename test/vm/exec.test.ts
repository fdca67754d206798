// One-way exec on a real guest: output, results, usage, signals, timeouts.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { settled } from '../support/settled.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(240_000));
const { api } = await startDaemon(t);
const { id } = await api.create();

t.test('output comes on its own stream, and the exit code is the command’s', async (t) => {
  const script = 'echo out; echo err >&2; sleep 0.3; exit 7';
  const { stdout, stderr, result } = await api.exec(id, ['sh', '-c', script]);
  t.same([stdout, stderr, result.exit_code], ['out\n', 'err\n', 7]);
  t.ok(result.duration_ms >= 300, `${result.duration_ms} ms`);
  t.same(
    Object.keys(result.usage ?? {}).sort(),
    [
      'context_switches_involuntary',
      'cpu_sys_ms',
      'cpu_user_ms',
      'io_read_bytes',
      'io_write_bytes',
      'page_faults_major',
      'peak_memory_bytes',
    ],
    'usage has all seven keys',
  );
  for (const key of ['signal', 'timed_out', 'oom_killed', 'error'])
    t.notOk(key in result, `${key} is absent`);
});

t.test('environment, working directory and user are as asked', async (t) => {
  t.equal(await api.sh(id, 'echo $A-$B', { env: { A: '1', B: 'zwei drei' } }), '1-zwei drei');
  t.equal(await api.sh(id, 'pwd'), '/');
  t.equal(await api.sh(id, 'pwd', { cwd: '/usr/lib' }), '/usr/lib');
  t.equal(
    await api.sh(id, 'id -u; id -g; echo $HOME; echo $PATH'),
    '0\n0\n/root\n/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  );
  t.equal(await api.sh(id, 'id -un; id -gn', { user: 'nobody' }), 'nobody\nnogroup');
  t.equal(await api.sh(id, 'id -u; id -g', { user: '1234:5678' }), '1234\n5678');
  t.equal(await api.sh(id, 'cat /proc/self/status | grep Groups', { user: 'daemon' }), 'Groups:\t1');
  const own = await api.sh(id, 'ps -o pid=,pgid=,sid= -p $$');
  t.equal(new Set(own.trim().split(/\s+/)).size, 1, 'its own session and process group');
});

t.test('kernel limits are high enough for databases, browsers and file watchers', async (t) => {
  const settings = {
    '/proc/sys/vm/max_map_count': 262_144, // Elasticsearch, OpenSearch, SonarQube
    '/proc/sys/fs/inotify/max_user_watches': 524_288, // VS Code, Vite, Jest
    '/proc/sys/fs/inotify/max_user_instances': 512, // kind, .NET
  };
  for (const [path, least] of Object.entries(settings))
    t.ok(Number(await api.sh(id, `cat ${path}`)) >= least, path);
});

t.test('an idle kernel sleeps: it moves no pages, counts seldom, and writes late', async (t) => {
  const names = 'vm/compaction_proactiveness vm/stat_interval vm/dirty_writeback_centisecs kernel/watchdog';
  t.equal(await api.sh(id, `cd /proc/sys; cat ${names}`), '0\n10\n3000\n0');
  t.match(await api.sh(id, 'cat /proc/fs/ext4/vdb/options'), /^commit=60$/m);
});

t.test(
  'a command has the home and the name of its user, with a terminal as without, and so has a service',
  async (t) => {
    await api.sh(id, 'useradd -m -s /bin/sh app');
    const script = 'touch ~/mine && echo $HOME $USER $LOGNAME';
    t.equal(await api.sh(id, script, { user: 'app' }), '/home/app app app');
    t.equal(await api.sh(id, script), '/root root root');
    t.equal(await api.sh(id, 'echo $HOME [$USER]', { user: '4321' }), '/ []', 'a number has no name');
    t.equal(await api.sh(id, 'echo $HOME $USER', { user: 'app', env: { HOME: '/tmp' } }), '/tmp app');
    const typed = await api.exec(id, ['sh', '-c', script], { user: 'app', tty: { cols: 80, rows: 24 } });
    t.equal(typed.stdout.trim(), '/home/app app app');
    const service = { cmd: ['sh', '-c', `${script} > ~/seen; sleep 600`], user: 'app' };
    await api.call('PUT', `/sandboxes/${id}/service`, service);
    const seen = '/home/app/seen';
    t.equal(await api.sh(id, `until [ -s ${seen} ]; do sleep 0.1; done; cat ${seen}`), '/home/app app app');
    await api.call('POST', `/sandboxes/${id}/service/stop`, {});
  },
);

t.test('what cannot start says why in the exit frame', async (t) => {
  for (const [cmd, options, pattern] of [
    [['/no/such'], {}, /no\/such.*does not exist/i],
    [['nosuchprogram'], {}, /not found.*nosuchprogram/i],
    [['/etc/passwd'], {}, /passwd.*(permission|not executable)/i],
    [['/etc'], {}, /etc.*(permission|directory)/i],
    [['true'], { cwd: '/no/such' }, /no\/such/],
    [['true'], { user: 'nobodyknows' }, /nobodyknows/],
    [['ls'], { env: { PATH: '/nowhere' } }, /not found.*"ls"/i],
  ] as const) {
    const { stdout, result } = await api.exec(id, cmd, options);
    t.match(result, { exit_code: -1, error: pattern }, JSON.stringify([cmd, options]));
    t.notOk('usage' in result, 'nothing ran');
    t.equal(stdout, '');
  }
  await t.rejects(api.exec(id, []), { status: 400, message: /cmd/ });
  await t.rejects(api.exec(id, ['true'], { user: ':::' }), { status: 400, message: /user .*":::"/ });
});

t.test('a signal that ends a command is named', async (t) => {
  t.match((await api.exec(id, ['sh', '-c', 'kill -KILL $$'])).result, { exit_code: -1, signal: 'SIGKILL' });
  t.match((await api.exec(id, ['sh', '-c', 'kill -SEGV $$'])).result, { exit_code: -1, signal: 'SIGSEGV' });
});

t.test('a timeout kills the whole tree', async (t) => {
  const script = 'sleep 1000 & setsid sh -c "sleep 1001 & sleep 1002" & echo started; sleep 1003';
  const { stdout, result } = await api.exec(id, ['sh', '-c', script], { timeout_s: 1 });
  t.equal(stdout, 'started\n');
  t.match(result, { exit_code: -1, signal: 'SIGKILL', timed_out: true });
  t.ok(result.duration_ms >= 900 && result.duration_ms < scaled(60_000), `${result.duration_ms} ms`);
  t.equal(await api.sh(id, 'pgrep -c sleep || true'), '0');
});

t.test('usage is that of the whole tree', async (t) => {
  const burn = await api.exec(id, ['sh', '-c', 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done']);
  const cpuMs = (burn.result.usage?.cpu_user_ms ?? 0) + (burn.result.usage?.cpu_sys_ms ?? 0);
  t.ok(cpuMs > 10, `${cpuMs} ms of CPU in ${burn.result.duration_ms} ms`);
  t.ok(cpuMs <= burn.result.duration_ms * 1.5 + 50);
  const memory = await api.exec(id, ['sh', '-c', 'head -c 60000000 /dev/zero | tail -c 50000000 | wc -c']);
  t.equal(memory.stdout.trim(), '50000000');
  t.ok(
    (memory.result.usage?.peak_memory_bytes ?? 0) > 50_000_000,
    `${memory.result.usage?.peak_memory_bytes}`,
  );
  t.ok((memory.result.usage?.peak_memory_bytes ?? 0) < 200_000_000);
});

t.test('an out-of-memory kill is distinguished from other kills', async (t) => {
  const { result } = await api.exec(id, ['perl', '-e', 'push @x, "a" x 10_000_000 for 1..70']);
  t.equal(result.oom_killed, true, JSON.stringify(result));
  const after = await api.exec(id, ['echo', 'alive']);
  t.same([after.stdout, after.result.oom_killed], ['alive\n', undefined]);
});

t.test('large output arrives whole and in order', async (t) => {
  const { stdout, result } = await api.exec(id, ['seq', '1', '400000']);
  t.equal(result.exit_code, 0);
  const lines = stdout.split('\n');
  t.equal(lines.length, 400_001);
  t.equal(
    lines.findIndex((line, index) => line !== String(index + 1)),
    400_000,
  );
});

t.test('a background child delays the exit by two seconds at most and lives on', async (t) => {
  const startedAt = performance.now();
  const { stdout, result } = await api.exec(id, ['sh', '-c', 'sleep 97 & echo done']);
  const tookMs = performance.now() - startedAt;
  t.same([stdout, result.exit_code], ['done\n', 0]);
  // Without the limit it would take 97 s.
  t.ok(tookMs < 80_000, `${tookMs} ms`);
  t.equal(await api.sh(id, 'pgrep -c -x sleep || true'), '1');
  await api.sh(id, 'pkill sleep; sleep 0.2');
});

t.test('a client that leaves kills its command', async (t) => {
  const controller = new AbortController();
  const response = await api.fetch(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: JSON.stringify({ cmd: ['sh', '-c', 'echo x; (setsid sleep 98 &) ; sleep 99'] }),
    signal: controller.signal,
  });
  await response.body?.getReader().read();
  // Each is a shell until it has become a `sleep`.
  while ((await api.sh(id, 'pgrep -c -x sleep || true')) !== '2') await sleep(50);
  controller.abort();
  let left = '';
  for (let waitedMs = 0; waitedMs < scaled(10_000) && left !== '0'; waitedMs += 200) {
    await sleep(200);
    left = await api.sh(id, 'pgrep -c "^sleep" || true');
  }
  t.equal(left, '0');
});

t.test('a slow command does not delay others', async (t) => {
  const slow = api.exec(id, ['sleep', '3']);
  const outputs = await Promise.all(Array.from({ length: 20 }, (_, n) => api.exec(id, ['echo', String(n)])));
  t.same(
    outputs.map(({ stdout }) => stdout),
    Array.from({ length: 20 }, (_, n) => `${n}\n`),
  );
  t.equal((await slow).result.exit_code, 0);
});

t.test('the agent is small and leaks nothing', async (t) => {
  const countFds = async () => Number(await api.sh(id, 'ls /proc/1/fd | wc -l'));
  const fdsBefore = await countFds();
  for (let n = 0; n < 30; n++) await api.exec(id, ['true']);
  // What ran before may have some of it a moment longer.
  const left = async (): Promise<string[]> => {
    const fds = await countFds();
    const cgroups = Number(await api.sh(id, 'ls -d /sys/fs/cgroup/exec/*/ | wc -l'));
    const zombies = await api.sh(id, "ps -eo stat= | grep -c '^Z' || true");
    return [
      ...(fds <= fdsBefore ? [] : [`${fdsBefore} open files, then ${fds}`]),
      // That of this very command, and one in stock.
      ...(cgroups <= 2 ? [] : [`${cgroups} cgroups`]),
      ...(zombies === '0' ? [] : [`${zombies} zombies`]),
    ];
  };
  t.same(await settled(left), []);
  const pssMib = Number(await api.sh(id, "awk '/^Pss:/ {print $2/1024}' /proc/1/smaps_rollup"));
  t.comment(`agent PSS ${pssMib} MiB`);
  t.ok(pssMib <= 60, `${pssMib} MiB`);
});
