// Guests that mean harm: they fail alone. The daemon stays small and quick, and other sandboxes notice nothing.
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { leftovers, startDaemon } from '../support/daemon.ts';
import { buildGuestProgram } from '../support/guest-program.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(240_000));
const hostile = await buildGuestProgram('hostile');
t.teardown(() => hostile[Symbol.asyncDispose]());
const daemon = await startDaemon(t, {
  flags: ['--boot-timeout-s', String(scaled(15)), '--initrd', hostile.initramfsPath],
});
const { api } = daemon;
const bystander = await api.create();

async function daemonRssMib(): Promise<number> {
  const status = await readFile(`/proc/${daemon.pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

const rssBefore = await daemonRssMib();
for (const mode of ['silent', 'garbage', 'zeros', 'lengths', 'pongs', 'mute', 'console']) {
  t.test(`a guest of mode ${mode} fails alone`, async (t) => {
    const creating = api.create({ boot_args: `${hostile.bootArgs} hostile=${mode}` });
    let slowestMs = 0;
    let isOver = false;
    const watch = (async () => {
      while (!isOver) {
        const startedAt = performance.now();
        t.equal((await api.fetch('/healthz')).status, 200);
        slowestMs = Math.max(slowestMs, performance.now() - startedAt);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    })();
    await t.rejects(creating, { status: /500|502/, message: /cannot create the sandbox \(stage agent\)/ });
    isOver = true;
    await watch;
    t.comment(
      `slowest health check ${Math.round(slowestMs)} ms, daemon ${Math.round(await daemonRssMib())} MiB`,
    );
    t.equal(await api.sh(bystander.id, 'echo fine'), 'fine');
    const left = await leftovers(daemon.directories, { isRunning: true, ignore: bystander.id });
    t.same(left, []);
  });
}

t.test('none of them made the daemon grow', async (t) => {
  const rssMib = await daemonRssMib();
  t.ok(rssMib - rssBefore < 80, `from ${rssBefore} to ${rssMib} MiB`);
});

t.test('a console without end does not fill the disk', async (t) => {
  const sandbox = await api.create();
  await api.exec(sandbox.id, ['sh', '-c', 'timeout 6 yes "a line that nobody wants to read" > /dev/ttyS0']);
  await new Promise((resolve) => setTimeout(resolve, 2500));
  // A VMM that writes on where it was leaves a hole before that: what counts is what the disk has of it.
  const { blocks } = await stat(join(sandbox.workdir, 'console.log'));
  t.ok(blocks * 512 <= 1024 * 1024, `${blocks * 512} bytes`);
  await api.delete(sandbox.id);
});
