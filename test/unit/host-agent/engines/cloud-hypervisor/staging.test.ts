// The directory that a VMM saves into, and what a compromised VMM may do there. This process acts as the VMM.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { removeStaging, Staging } from '../../../../../host-agent/src/engines/cloud-hypervisor/staging.ts';
import { until } from '../../../../support/until.ts';

const UID = 65_534;

async function makeStaging(t: Test, pid = process.pid) {
  const dir = mkdtempSync(join(tmpdir(), 'staging-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const lost: string[] = [];
  const staging = await Staging.open({
    identity: { pid, paths: { dir, socketDir: dir }, jail: { uid: UID } } as never,
    names: ['one', 'two'],
    maxBytes: 8192,
    reserved: ['two'],
    terminate: async (reason) => void lost.push(reason),
    log: pino({ level: 'silent' }),
  });
  t.teardown(() => staging[Symbol.asyncDispose]());
  return { dir, staging, lost, path: (name: string) => join(staging.path, name) };
}

t.test('it is the VMM’s until it is closed, and gone with all that is in it', async (t) => {
  const { dir, staging, path, lost } = await makeStaging(t);
  t.match(staging.path, new RegExp(`^${dir}/save-[^/]+$`));
  t.match(statSync(staging.path), { uid: UID, gid: UID });
  t.match(statSync(path('two')), { uid: 0, size: 0 });
  t.equal(statSync(path('two')).mode & 0o777, 0o600);
  writeFileSync(path('one'), Buffer.alloc(8192));
  await staging.close();
  t.match(statSync(staging.path), { uid: 0, gid: 0 });
  t.equal(statSync(staging.path).mode & 0o777, 0o711);
  mkdirSync(path('three/four'), { recursive: true });
  await staging[Symbol.asyncDispose]();
  t.same(readdirSync(dir), []);
  await staging[Symbol.asyncDispose]();
  t.same(lost, []);
});

t.test('what a VMM keeps, or makes of its own, ends it', async (t) => {
  const expectEnd = async (made: Awaited<ReturnType<typeof makeStaging>>, excess: string) => {
    await t.rejects(made.staging.close(), { message: `its VMM was ended: ${excess}` });
    t.same(made.lost, [`${excess}, as no VMM does`]);
  };
  const held = await makeStaging(t);
  const fd = openSync(held.path('one'), 'w');
  await expectEnd(held, 'it keeps what it has saved');
  closeSync(fd);
  const large = await makeStaging(t);
  for (const name of ['one', 'two']) writeFileSync(large.path(name), Buffer.alloc(6000));
  await expectEnd(large, 'it has saved 16384 bytes where 8192 are enough');
  const other = await makeStaging(t);
  writeFileSync(other.path('three'), '');
  await expectEnd(other, 'it makes files of its own while it is saved');
  const program = join(mkdtempSync(join(tmpdir(), 'program-')), 'sleep');
  t.teardown(() => rmSync(join(program, '..'), { recursive: true }));
  copyFileSync('/usr/bin/sleep', program);
  const vmm = spawn(program, ['600']);
  t.teardown(() => vmm.kill());
  await once(vmm, 'spawn');
  const mapped = await makeStaging(t, vmm.pid);
  execFileSync('mv', [program, mapped.path('one')]);
  await expectEnd(mapped, 'it keeps what it has saved');
  const gone = await makeStaging(t, 999_999_999);
  await gone.staging.close();
  t.same(gone.lost, []);
});

t.test('it is looked at while the VMM saves', async (t) => {
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => clearInterval(alive));
  const all = await Promise.all([1, 2, 3, 4, 5].map(() => makeStaging(t)));
  const [hiding, other, large, well, closed] = all as [(typeof all)[0], ...typeof all] & typeof all;
  const fd = openSync(hiding!.path('one'), 'w');
  t.teardown(() => closeSync(fd));
  unlinkSync(hiding!.path('one'));
  writeFileSync(other!.path('three'), '');
  writeFileSync(large!.path('one'), Buffer.alloc(9000));
  const open = openSync(well!.path('one'), 'w');
  await closed!.staging.close();
  writeFileSync(closed!.path('three'), '');
  await until(() => [hiding, other, large].every((each) => each!.lost.length > 0));
  t.same(
    [hiding, other, large].map((each) => each!.lost),
    [
      ['it hides files while it is saved, as no VMM does'],
      ['it makes files of its own while it is saved, as no VMM does'],
      ['it has saved 12288 bytes where 8192 are enough, as no VMM does'],
    ],
  );
  closeSync(open);
  const next = await makeStaging(t);
  writeFileSync(next.path('three'), '');
  await until(() => next.lost.length > 0);
  for (const each of [hiding, other, large]) t.equal(each!.lost.length, 1, 'it is told once');
  t.same([well!.lost, closed!.lost], [[], []]);
});

t.test('what a daemon left that died while it saved goes, and nothing else', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'staging-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  for (const path of ['save-a/deep/er', 'saved', 'other', 'kept'])
    mkdirSync(join(dir, path), { recursive: true });
  for (const path of ['save-a/one', 'saved/one', 'kept/one']) writeFileSync(join(dir, path), '');
  symlinkSync(join(dir, 'kept'), join(dir, 'save-link'));
  writeFileSync(join(dir, 'save-file'), '');
  await removeStaging(dir);
  t.same(readdirSync(dir).sort(), ['kept', 'other', 'saved']);
  t.ok(existsSync(join(dir, 'kept/one')), 'a link is not followed');
});
