// The texts of the guest's files of users: always those that are there now.
import '../support/addon-dir.ts';
import {
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { CachedText, readUserFiles } from '../../../../guest-agent/src/exec/users.ts';
import { addon } from '../../../../guest-agent/src/native/addon.ts';

/** Longer than a tick of the kernel's clock. */
const TICK_MS = 12;

t.test('a text is read again when the file has changed, however that was done', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'users-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'passwd');
  const text = new CachedText(path);
  t.equal(text.read(), '');
  const changes: readonly [what: string, change: () => void, expected: string][] = [
    ['a new file', () => writeFileSync(path, 'one'), 'one'],
    ['the same length', () => writeFileSync(path, 'two'), 'two'],
    ['cut off', () => truncateSync(path, 1), 't'],
    ['replaced', () => renameSync(other('new'), path), 'new'],
    ['a link', () => relink('far'), 'far'],
    ['the file behind the link', () => writeFileSync(join(dir, 'target'), 'bar'), 'bar'],
    ['removed', () => unlinkSync(path), ''],
  ];
  const other = (content: string): string => {
    writeFileSync(join(dir, 'other'), content);
    return join(dir, 'other');
  };
  const relink = (content: string): void => {
    writeFileSync(join(dir, 'target'), content);
    unlinkSync(path);
    symlinkSync('target', path);
  };
  for (const [what, change, expected] of changes) {
    change();
    t.equal(text.read(), expected, `${what}, at once`);
    await sleep(TICK_MS);
    t.equal(text.read(), expected, what);
    t.equal(text.read(), expected, what);
  }
  for (let round = 0; round < 300; round++) {
    writeFileSync(path, String(100 + round));
    t.equal(text.read(), String(100 + round), 'within a tick');
  }
});

t.test('a file that has not changed is not read', async (t) => {
  const read = addon.readText;
  let reads = 0;
  addon.readText = (...given) => {
    reads += 1;
    return read(...given);
  };
  t.teardown(() => {
    addon.readText = read;
  });
  const first = readUserFiles();
  for (let round = 0; round < 5; round++) t.same(readUserFiles(), first);
  t.ok(reads <= 2, `${reads}`);
});
