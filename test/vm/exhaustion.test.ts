// A command that takes all processes or all memory of its guest costs itself: the agent answers, starts and ends others.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Api, SandboxJson } from '../support/api.ts';
import { makeDirectories, removeDirectories, startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
/** A shell gives up where it cannot fork; this goes on. */
const BOMB = 'fork while 1';
/** The command is over, and nobody waits for what it started. */
const LEFT_BEHIND = `b() { b | b & }; b; perl -e '${BOMB}' >/dev/null 2>&1 & sleep 2; echo over`;
/** More than a guest needs for a command while another one takes all it gets. */
const SOON_MS = scaled(20_000);
const EATEN_MS = scaled(60_000);

const { api } = await startDaemon(t);

async function answersSoon(t: Test, id: string, what: string, of = api): Promise<void> {
  const startedAt = performance.now();
  const { stdout, result } = await of.exec(id, ['sh', '-c', 'echo $((6 * 7)) | cat'], { timeout_s: 120 });
  const tookMs = Math.round(performance.now() - startedAt);
  t.same([stdout, result.exit_code], ['42\n', 0], `${what}: ${JSON.stringify(result)}`);
  t.ok(tookMs < SOON_MS, `${what}: ${tookMs} ms`);
}

async function eventually(isTrue: () => Promise<boolean>): Promise<void> {
  for (const deadline = performance.now() + SOON_MS; !(await isTrue()); await sleep(200))
    if (performance.now() > deadline) throw new Error(`timed out waiting for ${isTrue}`);
}

const groupCount = async (id: string) => Number(await api.sh(id, 'ls -d /sys/fs/cgroup/exec/*/ | wc -l'));

t.test('a fork bomb that a command left behind', async (t) => {
  const { id } = await api.create();
  await api.call('PUT', `/sandboxes/${id}/service`, { cmd: ['sleep', '600'] });
  const { stdout, result } = await api.exec(id, ['sh', '-c', LEFT_BEHIND], { timeout_s: 60 });
  t.equal(stdout, 'over\n', JSON.stringify(result));
  for (const what of ['at once', 'a moment later']) {
    await answersSoon(t, id, what);
    await sleep(2000);
  }
  const most = Number(await api.sh(id, 'cat /proc/sys/kernel/threads-max'));
  const count = Number(await api.sh(id, 'cat /sys/fs/cgroup/exec/pids.current'));
  t.ok(count > 100 && count < most / 2, `${count} of ${most} processes`);

  await t.test('in a copy, too', async (t) => {
    const { id: snapshot } = await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
    const forks = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${snapshot}/fork`);
    for (const { id } of forks.sandboxes) {
      await answersSoon(t, id, 'a copy');
      await api.delete(id);
    }
    await api.call('DELETE', `/snapshots/${snapshot}`);
  });
  await t.test('it ends with its group, and others do not', async (t) => {
    const script =
      'for g in /sys/fs/cgroup/exec/*/; do n=$(cat $g/pids.current); [ $n -gt 100 ] && echo 1 > $g/cgroup.kill; done; true';
    await api.sh(id, script);
    const left = async () => Number(await api.sh(id, 'cat /sys/fs/cgroup/exec/pids.current'));
    await eventually(async () => (await left()) < 20);
    await eventually(async () => (await groupCount(id)) <= 3);
    t.match(await api.call('GET', `/sandboxes/${id}/service`), { state: 'running', restarts: 0 });
  });
  await api.delete(id);
});

t.test('a fork bomb whose command has a time limit, is left or is the service ends as a whole', async (t) => {
  const { id } = await api.create();
  const { result } = await api.exec(id, ['perl', '-e', BOMB], { timeout_s: 4 });
  t.match(result, { exit_code: -1, signal: 'SIGKILL', timed_out: true });
  t.ok(result.duration_ms < SOON_MS, `${result.duration_ms} ms`);
  await answersSoon(t, id, 'after it');

  const controller = new AbortController();
  const cmd = ['perl', '-e', `$| = 1; print "x"; ${BOMB}`];
  const { body } = await api.fetch(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: JSON.stringify({ cmd, user: 'nobody' }),
    signal: controller.signal,
  });
  await body?.getReader().read();
  await sleep(3000);
  await answersSoon(t, id, 'beside it');
  controller.abort();
  await eventually(async () => (await api.sh(id, 'pgrep -c -u nobody || true')) === '0');

  const service = { cmd: ['perl', '-e', BOMB], stop_grace_s: 1 };
  await api.call('PUT', `/sandboxes/${id}/service`, service);
  await sleep(3000);
  await answersSoon(t, id, 'beside the service');
  const stopped = await api.call<{ state: string }>('POST', `/sandboxes/${id}/service/stop`, {});
  if (stopped.state !== 'stopped')
    await eventually(
      async () => (await api.call<{ state: string }>('GET', `/sandboxes/${id}/service`)).state === 'stopped',
    );
  t.equal(await api.sh(id, 'pgrep -c perl || true'), '0');
  await api.delete(id);
});

const sparesOthers = (id: string) => async (t: Test) => {
  const service = { cmd: ['perl', '-e', 'my $x = "a" x 8_000_000; sleep 600'] };
  await api.call('PUT', `/sandboxes/${id}/service`, service);
  const bystander = api.exec(id, ['sh', '-c', 'sleep 15; echo alive']);
  // Each that is ended is replaced.
  const bomb = 'my $x; while (1) { fork() if rand() < 0.3; $x .= "a" x 4_000_000 }';
  const { result } = await api.exec(id, ['perl', '-e', bomb], { timeout_s: 20 });
  t.match(result, { exit_code: -1, signal: 'SIGKILL', oom_killed: true }, JSON.stringify(result));
  await answersSoon(t, id, 'after it');
  t.match(await bystander, { stdout: 'alive\n' });
  t.match(await api.call('GET', `/sandboxes/${id}/service`), { state: 'running', restarts: 0 });
};

t.test('a command that takes all memory', async (t) => {
  for (const memory_mib of [128, 512]) {
    const { id } = await api.create({ memory_mib });
    const eater = 'my @x; push @x, "a" x 1_000_000 while 1';
    const startedAt = performance.now();
    const eating = api.exec(id, ['perl', '-e', eater], { timeout_s: 300 });
    let isOver = false;
    void eating.finally(() => {
      isOver = true;
    });
    while (!isOver) await answersSoon(t, id, `beside it, with ${memory_mib} MiB`);
    const { result } = await eating;
    t.match(result, { exit_code: -1, signal: 'SIGKILL', oom_killed: true }, JSON.stringify(result));
    t.ok(performance.now() - startedAt < EATEN_MS, `${memory_mib} MiB: ${performance.now() - startedAt} ms`);
    t.notMatch(
      await api.sh(id, 'dmesg'),
      'global_oom',
      'it reached its own limit, not the end of the memory',
    );
    await answersSoon(t, id, 'after it');

    // In the smallest guest the agent's half and that of commands overlap, and the kernel ends the largest of them.
    if (memory_mib > 128)
      await t.test('of many processes ends neither the service nor a bystander', sparesOthers(id));
    await t.test('outside the groups of commands', async (t) => {
      const script = 'mkdir /sys/fs/cgroup/own; echo $$ > /sys/fs/cgroup/own/cgroup.procs; exec perl -e "$0"';
      const outside = api.exec(id, ['sh', '-c', script, eater], { timeout_s: 300 });
      await answersSoon(t, id, 'beside it');
      t.match((await outside).result, { exit_code: -1, signal: 'SIGKILL' });
      await answersSoon(t, id, 'after it');
    });
    await api.delete(id);
  }
});

t.test('memory that commands leave behind does not keep others from running', async (t) => {
  const { id } = await api.create({ memory_mib: 256 });
  const fill =
    'for d in /dev/shm /run/lock; do i=0; while dd if=/dev/zero of=$d/$0-$i bs=256k count=16 2>/dev/null; do i=$((i + 1)); done; done; echo over';
  // More than one, each of which may take less than all have together.
  for (const name of ['first', 'second', 'third']) {
    const { stdout } = await api.exec(id, ['sh', '-c', fill, name], { user: 'nobody', timeout_s: 120 });
    t.equal(stdout, 'over\n', 'the place is full, not the memory');
    await answersSoon(t, id, `after the ${name}`);
  }

  await t.test('System V shared memory and messages, too', async (t) => {
    const shm =
      'while (defined($id = shmget(0, 1 << 20, 0600))) { shmwrite($id, "a" x (1 << 20), 0, 1 << 20); $segments++ }';
    const messages =
      'while (defined($id = msgget(0, 0600))) { 1 while msgsnd($id, "\\1" x 9, 04000); $queues++ }';
    const script = `$segments = $queues = 0; ${shm} ${messages} print "over: $segments $queues"`;
    for (const name of ['first', 'second']) {
      const { stdout, result } = await api.exec(id, ['perl', '-e', script], {
        user: 'nobody',
        timeout_s: 300,
      });
      t.match(stdout, /^over: \d{1,2} \d{1,2}$/, JSON.stringify(result));
      if (name === 'second') t.equal(stdout, 'over: 0 0', 'what the first left counts');
      await answersSoon(t, id, `after the ${name}`);
    }
  });
  await api.delete(id);
});

t.test(
  'the operator says how many processes a command has, also in copies of guests that know another number',
  async (t) => {
    const directories = await makeDirectories();
    t.teardown(() => removeDirectories(directories));
    const limits = (api: Api, id: string) =>
      api.sh(id, 'cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup) && cat pids.max && cat ../pids.max');
    const first = await startDaemon(t, { directories, flags: ['--sandbox-pids-limit', '40'] });
    const { id } = await first.api.create();
    t.match(await limits(first.api, id), /^40\n\d{4}$/);
    const many = 'i=0; while [ $i -lt 50 ]; do sleep 60 & i=$((i + 1)); done';
    const { stderr } = await first.api.exec(id, ['sh', '-c', many]);
    t.match(stderr, /fork/, 'the program says so, as it would elsewhere');
    await answersSoon(t, id, 'beside it', first.api);
    await first.api.sh(id, 'pkill sleep');
    const { id: snapshot } = await first.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
    await first.api.delete(id);
    await first.end();

    const { api } = await startDaemon(t, {
      directories,
      flags: ['--sandbox-pids-limit', '60'],
      onExit: 'destroy',
    });
    const forks = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${snapshot}/fork`);
    const made = await api.create();
    for (const { id } of [...forks.sandboxes, made]) {
      t.match(await limits(api, id), /^60\n\d{4}$/);
      await api.delete(id);
    }
  },
);
