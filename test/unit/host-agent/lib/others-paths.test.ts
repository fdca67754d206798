// Directories and files that the operator names and that another user of the host can replace.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Jail, leaveJail } from '../../../../host-agent/src/engines/jail/jail.ts';
import { KeyMark } from '../../../../host-agent/src/keys/mark.ts';
import { holdOwn, pathOf } from '../../../../host-agent/src/lib/held-path.ts';
import { ensurePrivateDirectory } from '../../../../host-agent/src/lib/private-directory.ts';
import { HELPERS } from '../../../support/helper-programs.ts';
import { TEST_CGROUPS, TEST_UIDS } from '../../../support/jailed.ts';
import { STRANGER } from '../../../support/stranger.ts';

/** A directory of root that contains one of another user, and a file that the other user may not read. */
function makePlaces(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'others-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  chmodSync(dir, 0o755);
  const [theirs, shared, secrets] = [join(dir, 'theirs'), join(dir, 'shared'), join(dir, 'secrets')];
  for (const path of [theirs, shared, secrets]) mkdirSync(path);
  chownSync(theirs, STRANGER, STRANGER);
  chmodSync(shared, 0o1777);
  const secret = join(secrets, 'shadow');
  writeFileSync(secret, 'secret');
  chmodSync(secret, 0o600);
  chmodSync(secrets, 0o755);
  const modes = () => [secrets, secret].map((path) => statSync(path).mode & 0o7777);
  const before = modes();
  return { dir, theirs, shared, secrets, secret, assertUntouched: () => t.same(modes(), before) };
}

t.test('the daemon has no directory that another user can exchange', async (t) => {
  const { dir, theirs, shared, secrets, assertUntouched } = makePlaces(t);
  const refused = (path: string, message: RegExp) =>
    t.rejects(ensurePrivateDirectory(path), { message }, path);
  await refused(join(theirs, 'data'), new RegExp(`lies in ${theirs}, which user ${STRANGER} can change`));
  mkdirSync(join(theirs, 'own'), { mode: 0o700 });
  await refused(join(theirs, 'own/data'), /which user \d+ can change/);
  for (const [mode, who] of [
    [0o777, /which every user can change/],
    [0o775, /which group 50 can change/],
  ] as const) {
    chownSync(dir, 0, 50);
    chmodSync(dir, mode);
    await refused(join(dir, 'data'), who);
  }
  chownSync(dir, 0, 0);
  t.equal(await ensurePrivateDirectory(join(dir, 'own-group')), undefined, 'which has nobody else');
  chmodSync(dir, 0o755);
  symlinkSync(secrets, join(theirs, 'link'));
  symlinkSync(secrets, join(shared, 'link'));
  lchownSync(join(shared, 'link'), STRANGER, STRANGER);
  await refused(join(theirs, 'link'), /is a link in a directory that user \d+ can change/);
  await refused(join(shared, 'link/data'), /is a link in a directory that every user can change/);
  assertUntouched();
  t.same(readdirSync(secrets), ['shadow'], 'nothing was made there');
  t.equal(
    await ensurePrivateDirectory(join(shared, 'data')),
    undefined,
    'where nobody renames what is another’s',
  );
  symlinkSync(shared, join(dir, 'own-link'));
  t.equal(await ensurePrivateDirectory(join(dir, 'own-link/data')), undefined, 'a link of root’s');
  process.env.SUDO_UID = String(STRANGER);
  t.teardown(() => delete process.env.SUDO_UID);
  t.equal(await ensurePrivateDirectory(join(theirs, 'data')), undefined, 'of who is root by sudo anyway');
});

t.test('a file for a VMM is opened to all only where no other user can have put it', async (t) => {
  const { dir, theirs, shared, secret, assertUntouched } = makePlaces(t);
  const jail = await Jail.open({ program: HELPERS.jail, uids: TEST_UIDS, cgroups: TEST_CGROUPS });
  const enter = async (path: string) => {
    const cell = await jail.enter({
      ...{ program: '/usr/bin/env', argv0: 'vmm', args: [], view: { reads: [path], writes: [] } },
      ...{ vcpus: 1, memoryMib: 16, maxFileBytes: 0, descriptors: 3 },
    });
    await leaveJail(cell);
  };
  const kernel = join(theirs, 'vmlinux');
  symlinkSync(secret, kernel);
  symlinkSync(kernel, join(dir, 'to-theirs'));
  symlinkSync(secret, join(shared, 'link'));
  lchownSync(join(shared, 'link'), STRANGER, STRANGER);
  writeFileSync(join(shared, 'file'), '', { mode: 0o600 });
  chownSync(join(shared, 'file'), STRANGER, STRANGER);
  for (const path of [kernel, join(dir, 'to-theirs'), join(shared, 'link'), join(shared, 'file')])
    await t.rejects(enter(path), { code: 'conflict', message: /^a VMM cannot read .*chmod a\+r it/ }, path);
  assertUntouched();
  writeFileSync(join(dir, 'kernel'), '', { mode: 0o600 });
  symlinkSync('../../.', join(dir, 'up'));
  symlinkSync('kernel', join(dir, 'vmlinuz'));
  await enter(join(dir, 'vmlinuz'));
  t.equal(statSync(join(dir, 'kernel')).mode & 0o777, 0o644, 'through a link of root’s');
  const link = { reads: [], writes: [join(dir, 'vmlinuz')] };
  await t.rejects(
    jail.enter({
      ...{ program: '/usr/bin/env', argv0: 'vmm', args: [], view: link },
      ...{ vcpus: 1, memoryMib: 16, maxFileBytes: 0, descriptors: 3 },
    }),
    { code: 'ELOOP' },
    'what becomes its own is no link',
  );
  t.equal(statSync(join(dir, 'kernel')).uid, 0);
});

/** Another user replaces a file by a link and back, as fast as possible. */
const EXCHANGER = `
const { renameSync } = require('node:fs');
const [dir, uid] = JSON.parse(process.argv[1]);
process.setgroups([]); process.setgid(uid); process.setuid(uid);
process.chdir(dir);
process.stdout.write('begun');
const turn = () => {
  for (let i = 0; i < 200; i++)
    try {
      renameSync('data', 'kept'); renameSync('link', 'data'); renameSync('data', 'link'); renameSync('kept', 'data');
    } catch {}
  setImmediate(turn);
};
turn();
process.stdin.on('end', () => process.exit()).resume();
`;

t.test('nor while its owner exchanges names', async (t) => {
  const { theirs, secrets, secret, assertUntouched } = makePlaces(t);
  mkdirSync(join(theirs, 'data'), { mode: 0o700 });
  symlinkSync(secrets, join(theirs, 'link'));
  const child = spawn(process.execPath, ['-e', EXCHANGER, JSON.stringify([theirs, STRANGER])], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  await once(child.stdout, 'data');
  for (let turn = 0; turn < 300; turn++) {
    await t.rejects(ensurePrivateDirectory(join(theirs, 'data')));
    await t.rejects(holdOwn(join(theirs, 'data/shadow')));
  }
  child.stdin.end();
  await ended;
  assertUntouched();
  await using held = await holdOwn(secret);
  renameSync(secret, `${secret}-moved`);
  t.equal(statSync(pathOf(held)).size, 6, 'what is held stays the same');
});

t.test('the marker of keys is not written through a predictable link', async (t) => {
  const { dir, secret, assertUntouched } = makePlaces(t);
  const mark = new KeyMark(join(dir, 'state.lmdb'));
  symlinkSync(secret, `${mark.path}.${process.pid}.part`);
  await mark.ensure();
  t.ok(new KeyMark(join(dir, 'state.lmdb')).exists);
  assertUntouched();
  t.equal(statSync(secret).size, 6);
  t.equal(readdirSync(dir).filter((name) => name.endsWith('.part')).length, 1, 'the one that was there');
});

t.test(
  'a user whose checkout root runs the daemon from can have data in it, other users cannot',
  async (t) => {
    const { dir, theirs, shared, secrets } = makePlaces(t);
    const lib = new URL('../../../../host-agent/src/lib/private-directory.ts', import.meta.url).pathname;
    const make = `await (await import(${JSON.stringify(lib)})).ensurePrivateDirectory(process.argv[1])`;
    const run = (program: string, path: string) =>
      spawnSync(program, ['--input-type=module', '-e', make, path], { encoding: 'utf8' });
    const program = join(theirs, 'checkout/bin/node');
    mkdirSync(join(theirs, 'checkout/bin'), { recursive: true });
    copyFileSync(process.execPath, program);
    chownSync(join(theirs, 'checkout'), STRANGER, STRANGER);
    t.match(run(program, join(theirs, 'checkout/data')), { status: 0 });
    t.match(run(process.execPath, join(theirs, 'checkout/data')), {
      status: 1,
      stderr: new RegExp(`lies in ${theirs}, which user ${STRANGER} can change`),
    });
    const other = join(dir, 'other');
    mkdirSync(other);
    chownSync(other, STRANGER + 1, STRANGER + 1);
    t.match(run(program, join(other, 'data')), { status: 1, stderr: /can change/ });
    copyFileSync(process.execPath, join(shared, 'node'));
    symlinkSync(secrets, join(shared, 'link'));
    lchownSync(join(shared, 'link'), STRANGER, STRANGER);
    const linked = run(join(shared, 'node'), join(shared, 'link'));
    t.match(linked, { status: 1, stderr: /is a link in a directory that every user can change/ });
  },
);
