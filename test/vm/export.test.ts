// A real guest moves to the daemon of another data directory, and goes on there; with the command, as docs/export.md says it.
import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { SandboxJson } from '../support/api.ts';
import { checkedUrl } from '../support/checked-proxy.ts';
import { runCommand } from '../support/command.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));

async function startChecked(t: Test) {
  const { api, url } = await startDaemon(t);
  return { api, host: await checkedUrl(t, url) };
}

t.test('exported here, imported there: a copy goes on, or boots from the disk alone', async (t) => {
  const [here, there] = [await startChecked(t), await startChecked(t)];
  const dir = mkdtempSync(join(tmpdir(), 'export-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'work.snap');
  const sandbox = async ({ host }: typeof here, ...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(words, {
      SANDBOXD_HOST: host,
      XDG_CONFIG_HOME: dir,
    });
    t.equal(code, 0, `sandbox ${words.join(' ')}: ${stderr}`);
    return stdout.trim();
  };
  const { id } = await here.api.create();
  const lines =
    'echo disk > /root/file; sync; echo memory > /dev/shm/file; (sleep 900 & echo $! > /dev/shm/pid)';
  await here.api.sh(id, lines);
  const taken = await sandbox(here, 'snapshot', id);
  await sandbox(here, 'export', '-o', file, taken);
  t.equal(statSync(file).mode & 0o777, 0o600, 'only its owner reads what was in a memory');
  t.comment(`${Math.round(statSync(file).size / 2 ** 20)} MiB`);

  const imported = await sandbox(there, 'import', file);
  const { sandboxes } = await there.api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${imported}/fork`,
  );
  const copy = sandboxes[0]!.id;
  const said = await there.api.sh(
    copy,
    'cat /root/file /dev/shm/file; kill -0 $(cat /dev/shm/pid) && echo alive; hostname',
  );
  t.equal(said, `disk\nmemory\nalive\n${copy.replace('_', '-')}`);

  const booted = await sandbox(there, 'import', '--disk-only', file);
  const fork = await there.api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${booted}/fork`);
  const other = fork.sandboxes[0]!.id;
  t.equal(
    await there.api.sh(other, 'cat /root/file; ls /dev/shm; hostname'),
    `disk\n${other.replace('_', '-')}`,
  );
  t.equal((await there.api.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes')).sandboxes.length, 2);

  truncateSync(file, statSync(file).size - 1);
  const cut = await runCommand(['import', file], { SANDBOXD_HOST: there.host, XDG_CONFIG_HOME: dir });
  t.match(cut, { code: 1, stderr: /not a snapshot that can be imported: it is cut off/ });
  const kept = await there.api.call<{ snapshots: { id: string; dir: string }[] }>('GET', '/snapshots');
  t.same(
    kept.snapshots.map((each) => each.id),
    [imported, booted],
  );
  t.equal(readdirSync(join(kept.snapshots[0]!.dir, '..')).length, 2, 'nothing of the one that was cut');
  for (const gone of [copy, other]) await there.api.call('DELETE', `/sandboxes/${gone}`);
});

t.test('a paused sandbox is exported as it is, and goes on here and there', async (t) => {
  const [here, there] = [await startChecked(t), await startChecked(t)];
  const dir = mkdtempSync(join(tmpdir(), 'export-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'asleep.snap');
  const run = (host: string, ...words: string[]) =>
    runCommand(words, { SANDBOXD_HOST: host, XDG_CONFIG_HOME: dir });
  const { id } = await here.api.create({ memory_mib: 128, labels: { team: 'red' } });
  const READ = 'cat /root/file /dev/shm/file';
  await here.api.sh(id, 'echo disk > /root/file; echo memory > /dev/shm/file');
  t.match(await run(here.host, 'export', '-o', file, id), { code: 1, stderr: /is running, not paused/ });
  for (const text of ['first', 'second']) {
    await here.api.sh(id, `echo ${text} >> /dev/shm/file; echo ${text} >> /root/file`);
    await here.api.ask('pauseSandbox', { params: { id }, body: {} });
    t.match(await run(here.host, 'export', '-o', `${file}-${text}`, id), { code: 0 });
    t.equal((await here.api.ask('getSandbox', { params: { id } })).state, 'paused');
  }
  await here.api.sh(id, 'echo changed > /dev/shm/file; echo changed > /root/file');
  for (const [text, content] of [
    ['first', 'disk\nfirst\nmemory\nfirst'],
    ['second', 'disk\nfirst\nsecond\nmemory\nfirst\nsecond'],
  ]) {
    const { code, stdout, stderr } = await run(there.host, 'import', `${file}-${text}`);
    t.equal(code, 0, stderr);
    const path = `/snapshots/${stdout.trim()}/fork`;
    const { sandboxes } = await there.api.call<{ sandboxes: SandboxJson[] }>('POST', path);
    const copy = sandboxes[0]!;
    t.equal(await there.api.sh(copy.id, READ), content);
    t.same(copy.labels, { team: 'red' });
    t.not(await there.api.sh(copy.id, 'cat /etc/machine-id'), await here.api.sh(id, 'cat /etc/machine-id'));
    await there.api.delete(copy.id);
  }
  t.equal(await here.api.sh(id, READ), 'changed\nchanged');
  await here.api.ask('pauseSandbox', { params: { id }, body: { memory: false } });
  t.match(await run(here.host, 'export', '-o', file, id), { code: 1, stderr: /without its memory/ });
  const { snapshots } = await here.api.call<{ snapshots: unknown[] }>('GET', '/snapshots');
  t.same(snapshots, []);
});
