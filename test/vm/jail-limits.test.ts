// What a real VMM may take of its host's memory, processors and disks.
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import type { SandboxJson } from '../support/api.ts';
import { startDaemon } from '../support/daemon.ts';
import { compileGuestProgram } from '../support/guest-program.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { engineOf, uidOf, vmmOf } from '../support/vmms.ts';

t.setTimeout(scaled(240_000));

const MIB = 2 ** 20;

t.test('a VMM has a control group with limits that hold, or it is named what it has not', async (t) => {
  const flags = ['--sandbox-cpu-percent', '50', '--sandbox-io-bytes-per-s', String(2 * MIB)];
  const daemon = await startDaemon(t, { flags });
  const { api } = daemon;
  const missing = (await engineOf(daemon))?.jail?.missing ?? [];
  const sandbox = await api.create({ memory_mib: 256 });
  const pid = await vmmOf(sandbox);
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'latin1');
  if (missing.length > 0) {
    const hasNone = missing.length === 4 || missing.some((what) => what.startsWith('cgroup version 2'));
    t.equal(/sandboxd/.test(groups), !hasNone, `without ${missing}`);
    return;
  }
  const name = `sandboxd/vmm-${uidOf(pid)}`;
  t.equal(groups, `0::/${name}\n`);
  const mount = /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/self/mounts', 'latin1'))?.[1];
  const group = `${mount}/${name}`;
  const read = (file: string) => readFileSync(join(group, file), 'latin1').trim();
  t.match(['memory.max', 'memory.swap.max', 'pids.max', 'cpu.max', 'io.max'].map(read), [
    String(512 * MIB),
    '0',
    '129',
    '50000 100000',
    /^\d+:\d+ rbps=2097152 wbps=2097152 /,
  ]);
  const usedUs = () => Number(/^usage_usec (\d+)/m.exec(read('cpu.stat'))?.[1]);
  const [startedAt, before] = [performance.now(), usedUs()];
  await api.sh(sandbox.id, 'timeout 5 sh -c "while :; do :; done" || true');
  const share = (usedUs() - before) / 1000 / (performance.now() - startedAt);
  // On a busy host it may get less than it may have.
  t.ok(share > 0.02 && share < 0.6, `${share} of a CPU`);
  // Neither its own cache nor the host's makes a guest's writes somebody else's.
  const [disk = ''] = read('io.max').split(' ');
  const writtenBytes = () =>
    Number(new RegExp(`^${disk} .*wbytes=(\\d+)`, 'm').exec(read('io.stat'))?.[1] ?? 0);
  const [writesAt, writtenBefore] = [performance.now(), writtenBytes()];
  // Of a guest's own file system fsync waits for nothing.
  const sum = 'cd /root && dd if=/dev/urandom of=w bs=1M count=16 2> /dev/null; sync; md5sum w';
  const written = await api.sh(sandbox.id, sum);
  const bytesPerS = (16 * MIB) / ((performance.now() - writesAt) / 1000);
  t.ok(bytesPerS < 2 * MIB * 1.25, `${bytesPerS} bytes a second`);
  // Linux 6.1 does not count all that the limit makes wait. What the cache writes back is counted for another group, all of it.
  t.ok(writtenBytes() - writtenBefore > 2 * MIB, `${writtenBytes() - writtenBefore} bytes are its own`);
  const snapshot = await api.call<{ id: string }>('POST', `/sandboxes/${sandbox.id}/snapshot`);
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork`,
  );
  const copy = sandboxes[0]?.id ?? '';
  t.equal(await api.sh(copy, 'cd /root && md5sum w'), written, 'a copy has all of it');
  t.match(read('io.max'), / wbps=2097152 /, 'which was saved as fast as could be, and is limited again');

  await t.test('one that takes more memory than it has is ended, and no other', async (t) => {
    const dir = await mkdtemp('/tmp/hungry-');
    t.teardown(() => rm(dir, { recursive: true, force: true }));
    await compileGuestProgram('inject', dir);
    const { stdout } = await promisify(execFile)(join(dir, 'inject'), [String(pid), 'hungry']);
    t.equal(stdout, 'hungry: KILLED\n');
    await t.rejects(api.exec(sandbox.id, ['true']), { message: /is dead: the VMM was killed by SIGKILL/ });
    t.equal(await api.sh(copy, 'echo alive'), 'alive');
    t.ok(daemon.log.every(({ level }) => level !== 'fatal'));
  });
  await api.delete(sandbox.id);
  await until(() => !existsSync(group));
});
