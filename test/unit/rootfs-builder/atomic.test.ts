// Work directories of processes that do not see each other.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, utimesSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createWorkDirectory, sweepWorkDirectories } from '../../../rootfs-builder/src/lib/atomic.ts';
import { startElsewhere } from '../../support/elsewhere.ts';

const MODULE = 'rootfs-builder/src/lib/atomic.ts';

t.test('a process in another PID namespace: what it works in stays, until it has ended', async (t) => {
  const dir = t.testdir({});
  const { child, done } = startElsewhere(
    t,
    MODULE,
    `await module.createWorkDirectory(${JSON.stringify(dir)});`,
  );
  await done;
  const [made = ''] = readdirSync(dir);
  t.match(made, /^\.tmp-[0-9a-f]{8}\.1-/);
  await sweepWorkDirectories(dir);
  t.same(readdirSync(dir), [made]);
  const own = await createWorkDirectory(dir);
  const other = startElsewhere(t, MODULE, `await module.sweepWorkDirectories(${JSON.stringify(dir)});`);
  await other.done;
  t.same(readdirSync(dir).sort(), [made, basename(own)].sort(), 'also from within a namespace');
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
  // The kernel ends what is left of the namespace a little later.
  while (readdirSync(dir).includes(made)) {
    await sleep(20);
    await sweepWorkDirectories(dir);
  }
  t.same(readdirSync(dir), [basename(own)]);
});

t.test('of others, a file that is new stays, and an old one is swept', async (t) => {
  const names = ['.tmp-00000000.1-1-aa', '.tmp-00000000.1-1-bb'];
  const dir = t.testdir({ [names[0] ?? '']: 'x', [names[1] ?? '']: 'x' });
  const longAgo = new Date(Date.now() - 86_400_000);
  utimesSync(join(dir, names[1] ?? ''), longAgo, longAgo);
  await sweepWorkDirectories(dir);
  t.same(readdirSync(dir), [names[0]]);
});

t.test('a directory that cannot be locked does not stay', async (t) => {
  const dir = t.testdir({ 'no-flock': '#!/bin/sh\nexit 71\n', work: {} });
  const [program, work] = [join(dir, 'no-flock'), join(dir, 'work')];
  chmodSync(program, 0o755);
  const atomic = join(import.meta.dirname, '../../../rootfs-builder/src/lib/atomic.ts');
  const script = `import { createWorkDirectory } from ${JSON.stringify(atomic)};
    await createWorkDirectory(${JSON.stringify(work)}).catch(({ message }) => console.log(message));`;
  const node = [process.execPath, '--input-type=module', '-e', script];
  const shell = 'mount --bind "$0" /usr/bin/flock && exec "$@"';
  const { stdout } = spawnSync('unshare', ['--mount', 'sh', '-c', shell, program, ...node], {
    encoding: 'utf8',
  });
  t.match(stdout, /cannot lock .*: flock ended with 71/);
  t.same(readdirSync(work), []);
});
