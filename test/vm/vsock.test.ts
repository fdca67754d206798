// The agent's end of vsock in a real guest kernel, where the guest itself plays the host over the loopback transport.
import t from 'tap';
import { PORT } from '../guest/vsock-ports.ts';
import { startDaemon } from '../support/daemon.ts';
import { installInGuest } from '../support/guest-node.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const daemon = await startDaemon(t);
const { api } = daemon;
const sandbox = await api.create({ memory_mib: 1024, boot_args: 'sandbox.modules=vsock_loopback' });
const scripts = ['vsock-agent', 'vsock-hosts'];
const { command, env, dir } = await installInGuest(api, sandbox.id, scripts, ['vsock-relay']);

t.test('the agent listens on vsock, and accepts the host only', async (t) => {
  t.match(await api.sh(sandbox.id, 'cat /proc/modules'), /^vsock_loopback /m);
  for (let at = 0; at < 3; at++) {
    // It connects (another exit code otherwise), and the agent ends that at once.
    const { result, stdout } = await api.exec(sandbox.id, [`${dir}/vsock-relay`, '1', '1024'], {
      timeout_s: 30,
    });
    t.ok([0, 2].includes(result.exit_code), `exit code ${result.exit_code}`);
    t.notOk(result.timed_out);
    t.equal(stdout, '');
  }
  const { result } = await api.exec(sandbox.id, [`${dir}/vsock-relay`, '1', '1025']);
  t.equal(result.exit_code, 1, 'nobody listens elsewhere');
  t.equal(await api.sh(sandbox.id, 'echo served'), 'served');
});

t.test('the agent’s modules over vsock', async (t) => {
  const options = { env, timeout_s: 500 };
  const agent = api.exec(sandbox.id, [...command('vsock-agent'), '/run/vsock-agent.pid'], options);
  await api.sh(sandbox.id, 'until test -s /run/vsock-agent.pid; do sleep 0.2; done', { timeout_s: 120 });
  const hosts = [...command('vsock-hosts'), `${dir}/vsock-relay`];
  const { stdout, stderr, result } = await api.exec(sandbox.id, hosts, options);
  t.match(result, { exit_code: 0 }, stderr.slice(-2000));
  const outcomes = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { name: string; error?: string });
  t.equal(outcomes.length, 6, stdout);
  for (const { name, error } of outcomes) t.equal(error, undefined, name);
  const marks = await api.sh(sandbox.id, 'ls /run/vsock-agent.pid.*');
  t.equal(marks, `/run/vsock-agent.pid.${PORT}`, 'only a host that was accepted ends the search for a port');
  await api.sh(sandbox.id, 'kill $(cat /run/vsock-agent.pid)');
  t.equal((await agent).stdout, '', 'the agent’s modules met no fault');
});

t.test('the sandbox is as it was', async (t) => {
  t.equal(await api.sh(sandbox.id, 'echo served'), 'served');
  await api.delete(sandbox.id);
});
