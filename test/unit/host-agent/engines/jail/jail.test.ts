// A jail as seen from within, by a program that tries what a broken VMM would.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { Jail, takeBack } from '../../../../../host-agent/src/engines/jail/jail.ts';
import { end, openAttacks, TEST_CGROUPS, TEST_UIDS } from '../../../../support/jailed.ts';

t.test('nothing of the host can be reached from a jail', async (t) => {
  await using attacks = await openAttacks();
  const victim = spawn('sleep', ['600']);
  t.teardown(() => victim.kill());
  await once(victim, 'spawn');
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  const secret = join(attacks.dir, 'secret');
  await writeFile(secret, 'text', { mode: 0o600 });
  const reachable = [`process=${victim.pid}`, `port=${port}`, `file=${secret}`];
  const asDaemon = await attacks.attackAsDaemon(reachable);
  const jailed = await attacks.attack([...reachable, 'self'], { reads: [], writes: [] });
  t.same(
    [...jailed].filter(([, outcome]) => outcome === 'done'),
    [],
  );
  for (const name of [
    "open a process's mem",
    'trace',
    'signal',
    'limit a process',
    'connect',
    'raw socket',
    `read ${secret}`,
    `write ${secret}`,
  ])
    t.equal(asDaemon.get(name), 'done', `${name}: or this test could not fail`);
  for (const name of asDaemon.keys()) t.ok(jailed.has(name), name);
  t.ok(jailed.size > 45);
});

t.test('a jailed program has its files as they were meant, and no others', async (t) => {
  await using attacks = await openAttacks();
  const dir = join(attacks.dir, 'files');
  await mkdir(dir);
  const [read, hidden, own, made] = ['read', 'hidden', 'own', 'made'].map((name) => join(dir, name));
  if (!read || !hidden || !own || !made) throw new Error('four names');
  for (const path of [read, hidden, own]) await writeFile(path, 'text', { mode: 0o600 });
  await chmod(read, 0o666);
  const kinds = [read, hidden, own, made].map((path) => `file=${path}`);
  const outcomes = await attacks.attack(kinds, { reads: [read], writes: [own, made] });
  const of = (what: string) => [read, hidden, own, made].map((path) => outcomes.get(`${what} ${path}`));
  t.same(of('read'), ['done', 'ENOENT', 'done', 'done']);
  t.same(of('write'), ['EROFS', 'ENOENT', 'done', 'done']);
  t.ok((await stat(own)).uid >= TEST_UIDS.base, 'what it may write is its own');
  t.equal((await stat(made)).uid, (await stat(own)).uid, 'a file that was not there was made');
  t.equal((await stat(read)).uid, 0);
  await takeBack(own);
  t.match(await stat(own), { uid: 0, gid: 0 });
});

t.test('what a program left in place of a file is not taken for it', async (t) => {
  await using attacks = await openAttacks();
  const link = join(attacks.dir, 'link');

  await symlink('/etc/shadow', link);
  await t.rejects(takeBack(link), { code: 'ELOOP' });
});

t.test('a program cannot be started where a part of its jail is missing', async (t) => {
  await using attacks = await openAttacks();
  const { process, logPath } = await attacks.start('/bin/sleep', ['600'], {
    reads: [],
    writes: [],
    devices: ['/dev/absent'],
  });
  t.match(await end(process), { exitCode: 125 });
  t.match(
    await readFile(logPath, 'utf8'),
    /^jail: cannot find the device \/dev\/absent: No such file or directory$/m,
  );
  await t.rejects(
    Jail.open({ program: '/bin/false', uids: TEST_UIDS, cgroups: TEST_CGROUPS, maxFileBytes: 1 }),
    {
      code: 'unsupported',
      message: /^guests are not started without a jail for their VMMs, and there can be none here: /,
    },
  );
});
