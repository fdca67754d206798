// Transfers of a saved guest's files from and to a VMM that runs as another user.
import {
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
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
  linkMemory,
  MAX_SAVED_BESIDE_BYTES,
  memoryPathIn,
  readSaved,
  SAVED_FILES,
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

/** Files that a VMM of another user has written, and their destination. */
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

t.test('memory without any writer left is moved', async (t) => {
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

t.test('memory on another file system is copied, and missing memory is an error', async (t) => {
  const { memoryPath, collect, to } = makeSaved('elsewhere');
  const far = mkdtempSync('/dev/shm/saved-');
  t.teardown(() => rmSync(far, { recursive: true }));
  rmSync(to, { recursive: true });
  symlinkSync(far, to);
  const saved = await collect();
  t.equal(readFileSync(saved.memoryPath, 'latin1'), CONTENT);
  t.same(readdirSync(far).sort(), ['memory', 'state']);
  t.notOk(existsSync(memoryPath));
  const none = makeSaved('none');
  rmSync(none.memoryPath);
  await t.rejects(none.collect(), { code: 'ENOENT' });
  t.same(readdirSync(none.to), ['state']);
});

t.test('what a VMM did not save whole is refused', async (t) => {
  const start = 'the VMM did not save everything: ';
  for (const [name, content, what] of [
    ['config.json', '', 'config.json is not JSON'],
    ['state.json', '{', 'state.json is not JSON'],
    ['memory-ranges', 'short', `memory-ranges has 5 bytes, not ${CONTENT.length}`],
  ] as const) {
    const { memoryPath, collect } = makeSaved(`part-${name}`);
    writeFileSync(join(memoryPath, '..', name), content);
    await t.rejects(collect(), {
      ...{ code: 'internal', message: `${start}${what}`, details: { stage: 'save' } },
    });
  }
  const most = 4 * 2 ** 20;
  for (const [bytes, isTaken] of [
    [most, true],
    [most + 1, false],
  ] as const) {
    const { memoryPath, collect } = makeSaved(`long-${bytes}`);
    writeFileSync(join(memoryPath, '../state.json'), '{}'.padEnd(bytes));
    if (isTaken) await collect();
    else await t.rejects(collect(), { message: /is longer than 4194304 bytes/ });
  }
  t.equal(MAX_SAVED_BESIDE_BYTES, 9 * 2 ** 20);
  t.same(SAVED_FILES, ['config.json', 'state.json', 'memory-ranges']);
});

t.test('what was saved is read again as it was written, and nothing else is', async (t) => {
  const { memoryPath, collect } = makeSaved('again');
  const texts = { config: '{"a": 18446744073709551615}', state: '[1.0]' };
  writeFileSync(join(memoryPath, '../config.json'), texts.config);
  writeFileSync(join(memoryPath, '../state.json'), texts.state);
  const saved = await collect();
  t.equal(statSync(saved.statePath).mode & 0o777, 0o600);
  t.match(await readSaved(saved), texts);
  const start = join(dir, 'start');
  mkdirSync(start);
  await linkMemory(saved, start);
  t.equal(memoryPathIn(start), join(start, 'memory-ranges'));
  t.equal(statSync(memoryPathIn(start)).ino, statSync(saved.memoryPath).ino);
  await layOutSaved(start, { b: 1 }, texts.state);
  t.equal(readFileSync(join(start, 'config.json'), 'utf8'), '{"b":1}');
  t.equal(readFileSync(join(start, 'state.json'), 'utf8'), texts.state);
  const there = collectSaved({
    ...{ from: join(memoryPath, '..'), to: join(saved.memoryPath, '..'), memoryBytes: CONTENT.length },
    ...{ memoryPath: saved.memoryPath, claimProgram: '/bin/false', log: pino({ level: 'silent' }) },
  });
  t.same(await there, saved, 'memory that is there already is left alone');
  for (const text of ['', '{"formatVersion":2,"config":"","state":""}', '{"formatVersion":1,"config":""}']) {
    writeFileSync(saved.statePath, text);
    await t.rejects(readSaved(saved), {
      ...{ code: 'internal', details: { stage: 'restore' } },
      message: new RegExp(`^${saved.statePath} holds no saved state of this engine: `),
    });
  }
});
