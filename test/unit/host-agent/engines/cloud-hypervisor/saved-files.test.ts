// The files of a saved guest on their way from and to a VMM that has another user.
import {
  chownSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import {
  collectSaved,
  layOutSaved,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/saved-files.ts';
import { HELPERS } from '../../../../support/helper-programs.ts';

const dir = mkdtempSync(join(tmpdir(), 'saved-'));
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

t.test('a VMM may read what it is restored from, whatever the umask of the daemon is', async (t) => {
  const before = process.umask(0o077);
  t.teardown(() => process.umask(before));
  for (const name of ['first', 'again']) {
    await layOutSaved(dir, { name }, '{}');
    for (const file of ['config.json', 'state.json'])
      t.equal(statSync(join(dir, file)).mode & 0o777, 0o644, `${file} ${name}`);
  }
});

const CONTENT = 'memory of a guest';
const VMM_UID = 65_534;

/** What a VMM with another user has written, and where it shall go. */
function makeSaved(name: string) {
  const [from, to] = [join(dir, `${name}-from`), join(dir, `${name}-to`)];
  for (const path of [from, to]) mkdirSync(path);
  for (const file of ['config.json', 'state.json']) writeFileSync(join(from, file), '{}');
  const memoryPath = join(from, 'memory-ranges');
  writeFileSync(memoryPath, CONTENT, { mode: 0o600 });
  chownSync(memoryPath, VMM_UID, VMM_UID);
  const log = pino({ level: 'silent' });
  const collect = (claimProgram = HELPERS.claim) =>
    collectSaved({ from, to, memoryBytes: CONTENT.length, claimProgram, log });
  return { to, memoryPath, collect };
}

t.test('memory that nobody can write to any more is moved', async (t) => {
  const { memoryPath, collect, to } = makeSaved('alone');
  const reader = openSync(memoryPath, 'r');
  t.teardown(() => closeSync(reader));
  const { ino } = statSync(memoryPath);
  const saved = await collect();
  t.match(statSync(saved.memoryPath), { ino, uid: 0, gid: 0 });
  t.equal(statSync(saved.memoryPath).mode & 0o777, 0o644);
  t.same(readdirSync(to).sort(), ['memory', 'state']);
});

t.test('memory that the VMM still has open for writing is copied, and what it writes is lost', async (t) => {
  const { memoryPath, collect, to } = makeSaved('held');
  const held = openSync(memoryPath, 'r+');
  t.teardown(() => closeSync(held));
  const saved = await collect();
  writeSync(held, 'changed', 0);
  t.equal(readFileSync(saved.memoryPath, 'latin1'), CONTENT);
  t.equal(statSync(saved.memoryPath).uid, 0);
  t.same(readdirSync(to).sort(), ['memory', 'state']);
});

t.test('so it is where that cannot be found out', async (t) => {
  const { memoryPath, collect } = makeSaved('unknown');
  const { ino } = statSync(memoryPath);
  const saved = await collect('/bin/false');
  t.not(statSync(saved.memoryPath).ino, ino);
  t.equal(readFileSync(saved.memoryPath, 'latin1'), CONTENT);
});
