// What goes wrong in guests, VMMs and on the host: clear errors, nothing left, the daemon and its other sandboxes fine.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ApiError } from '../support/api.ts';
import {
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';

t.setTimeout(scaled(300_000));
const daemon = await startDaemon(t);
const { api, directories } = daemon;
const bystander = await api.create();

async function onlyBystanderIsLeft(t: Test): Promise<void> {
  t.same(
    (await api.list()).map(({ id }) => id),
    [bystander.id],
  );
  const left = await leftovers(directories, { isRunning: true, ignore: [bystander.id] });
  t.same(left, [], 'no process, socket or directory of another sandbox');
}

t.test(
  'a guest that cannot start fails the create with its stage and cause; the rest is in the log',
  async (t) => {
    await t.rejects(api.create({ boot_args: 'sandbox.init=/no/such/init' }), {
      status: 500,
      message: /^[^\n]*stage agent\)[^\n]*\/no\/such\/init[^\n]*$/,
    });
    const line = daemon.log.findLast(({ msg }) => msg === 'a sandbox did not start');
    t.match(line, { diagnosis: /console:[\s\S]*\/no\/such\/init[\s\S]*vmm log:/ });
    await onlyBystanderIsLeft(t);
  },
);

t.test('a kernel that panics at boot is named', async (t) => {
  await t.rejects(api.create({ boot_args: 'rdinit=/nothing root=/dev/nothing' }), {
    status: 500,
    message: /panic/i,
  });
  await onlyBystanderIsLeft(t);
});

t.test('a guest that panics later stays listed, and every operation says why it is dead', async (t) => {
  const sandbox = await api.create();
  const { result } = await api.exec(sandbox.id, [
    'sh',
    '-c',
    'echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; sleep 60',
  ]);
  t.match(result, { exit_code: -1, error: /panic/ });
  t.same(
    (await api.list()).map(({ id }) => id),
    [bystander.id, sandbox.id],
  );
  await t.rejects(api.exec(sandbox.id, ['true']), {
    status: 500,
    message: /is dead: the guest panicked.*delete it/,
  });
  await api.delete(sandbox.id);
  await onlyBystanderIsLeft(t);
});

t.test('a guest that powers off is dead, too', async (t) => {
  const sandbox = await api.create();
  await api.exec(sandbox.id, [
    'sh',
    '-c',
    'echo 1 > /proc/sys/kernel/sysrq; echo o > /proc/sysrq-trigger; sleep 60',
  ]);
  await t.rejects(api.exec(sandbox.id, ['true']), { status: 500, message: /is dead: the guest powered off/ });
  await api.delete(sandbox.id);
  await onlyBystanderIsLeft(t);
});

t.test('a VMM that is killed ends a running command with an exit frame, not with a hang', async (t) => {
  const sandbox = await api.create();
  const running = api.exec(sandbox.id, ['sh', '-c', 'echo up; sleep 60']);
  for (const pid of await vmmPids(sandbox.id)) process.kill(pid, 'SIGKILL');
  const ended = await running.catch((error) => error);
  if (!(ended instanceof ApiError)) t.match(ended.result, { exit_code: -1, error: /SIGKILL/ });
  await t.rejects(api.exec(sandbox.id, ['true']), {
    status: 500,
    message: /is dead: the VMM was killed by SIGKILL/,
  });
  await api.delete(sandbox.id);
  await onlyBystanderIsLeft(t);
});

t.test('the bystander noticed nothing', async (t) => {
  t.equal(await api.sh(bystander.id, 'echo fine'), 'fine');
});

t.test('an agent that does not answer in time fails the create', async (t) => {
  // A copy may be there in time.
  const impatient = await startDaemon(t, { flags: ['--boot-timeout-s', '1'], templates: 'own' });
  // On a busy host its VMM may be what takes the time.
  await t.rejects(impatient.api.create(), {
    status: 500,
    message: /stage .*did not (answer|start) within 1000 ms/,
  });
  t.same(await leftovers(impatient.directories, { isRunning: true }), []);
});

t.test('a VMM that stays behind its guest is no guest that hangs', async (t) => {
  const bin = await mkdtemp(join(tmpdir(), 'sbxd-bin-'));
  t.teardown(() => rm(bin, { recursive: true }));
  const program = join(bin, 'qemu');
  // With this option it waits, paused, where it would end.
  const start = 'exec -a qemu-system-x86_64 qemu-system-x86_64 "$@"';
  const script = `#!/bin/bash\ncase "$*" in *--version*) ${start};; esac\n${start} -no-shutdown\n`;
  await writeFile(program, script, { mode: 0o755 });
  const far = ['--boot-timeout-s', '3600', '--template-disk-bytes', '0'];
  // In its jail there is no shell for the script.
  const flags = ['--engine', 'qemu', '--qemu-program', program, '--insecure-no-jail', ...far];
  const own = await startDaemon(t, { flags });
  await t.rejects(own.api.create({ boot_args: 'rdinit=/nothing root=/dev/nothing' }), {
    status: 500,
    message: /^500: cannot create the sandbox \(stage \w+\): [^\n]*panic[^\n]*$/,
  });
  const sandbox = await own.api.create();
  const off = ['sh', '-c', 'echo 1 > /proc/sys/kernel/sysrq; echo o > /proc/sysrq-trigger; sleep 60'];
  const { result } = await own.api.exec(sandbox.id, off);
  t.match(result, { exit_code: -1, error: /the guest powered off/ });
  await t.rejects(own.api.exec(sandbox.id, ['true']), { message: /is dead: the guest powered off/ });
  await own.api.delete(sandbox.id);
});

t.test('without a VMM the daemon says what to install', async (t) => {
  const own = await makeDirectories();
  const bin = await mkdtemp(join(tmpdir(), 'sbxd-bin-'));
  t.teardown(async () => {
    await removeDirectories(own);
    await rm(bin, { recursive: true });
  });
  await t.rejects(spawnDaemon(own, { env: { PATH: bin } }), {
    message: /no engine can run guests.*not installed/,
  });
});

t.test('a taken port is named', async (t) => {
  const own = await makeDirectories();
  t.teardown(() => removeDirectories(own));
  const address = daemon.url.replace('http://', '');
  await t.rejects(spawnDaemon(own, { flags: ['--listen', address] }), { message: /listen.*in use/i });
});

t.test('SIGTERM lets a running command finish, then leaves nothing', async (t) => {
  const own = await makeDirectories();
  t.teardown(() => removeDirectories(own));
  const other = await spawnDaemon(own);
  const sandbox = await other.api.create();
  let isOver = false;
  const running = other.api.exec(sandbox.id, ['sh', '-c', 'sleep 6; echo finished']).finally(() => {
    isOver = true;
  });
  while ((await other.api.sh(sandbox.id, 'pgrep -x sleep || true')) === '') await sleep(50);
  const ended = other.end('SIGTERM');
  while (await other.api.fetch('/healthz').catch(() => undefined)) await sleep(50);
  t.equal(isOver, false, 'it accepts nothing new while the command runs');
  t.equal((await running).stdout, 'finished\n');
  t.equal(await ended, 0);
  t.same(await leftovers(own), []);
});
