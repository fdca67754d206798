// Moving a directory to memory: its content is unchanged, and excessive or unusual content causes no harm.
import '../support/addon-dir.ts';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  lchownSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statfsSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { compileSource } from '../../../support/image-program.ts';

if (process.getuid?.() !== 0) t.bailout('file systems are mounted as root: run these tests as root');

const TMPFS = 0x0102_1994;
const TOO_MUCH = -constants.errno.E2BIG;
const MANY = 1000;
const CAPACITY_BYTES = 2 ** 20;

/** Prints or sets extended attributes of a path; Node has no API for them. */
const attributeTool = join(mkdtempSync(join(tmpdir(), 'attributes-')), 'attributes');
t.teardown(() => rmSync(dirname(attributeTool), { recursive: true }));
const source = `
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
int main(int count, char **words) {
  static char names[65536], value[65536];
  if (count > 3) return lsetxattr(words[1], words[2], words[3], strlen(words[3]), 0) < 0;
  ssize_t length = llistxattr(words[1], names, sizeof names);
  for (char *name = names; name < names + length; name += strlen(name) + 1) {
    ssize_t size = lgetxattr(words[1], name, value, sizeof value);
    printf("%s=", name);
    for (ssize_t n = 0; n < size; n++) printf("%02x", (unsigned char)value[n]);
    puts("");
  }
}`;
writeFileSync(attributeTool, compileSource(source, 'gcc'), { mode: 0o755 });
const setAttribute = (path: string, name: string, value: string): void =>
  void execFileSync(attributeTool, [path, name, value]);

/** A root that is not in memory. */
function makeRoot(t: Test): { root: string; run: string } {
  const root = mkdtempSync('/var/tmp/memory-directory-');
  const run = join(root, 'run');
  t.teardown(() => {
    if (isInMemory(run)) execFileSync('umount', [run]);
    rmSync(root, { recursive: true });
  });
  return { root, run };
}

function isInMemory(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isDirectory() === true && statfsSync(path).type === TMPFS;
}

const move = (run: string, entries = MANY, bytes = CAPACITY_BYTES): number =>
  addon.moveToMemory(run, entries, bytes, 'sandbox');

/** All `stat` data and contents of a tree, by path. */
function describe(dir: string): Record<string, unknown> {
  const attributes = (path: string) => execFileSync(attributeTool, [path], { encoding: 'utf8' });
  const names = ['.', ...readdirSync(dir, { recursive: true, encoding: 'latin1' })].sort();
  return Object.fromEntries(
    names.map((name) => {
      const path = join(dir, name);
      const { mode, uid, gid, mtimeMs, rdev, nlink } = lstatSync(path);
      const content = (mode & 0o170000) === 0o100000 ? readFileSync(path, 'latin1') : '';
      const target = (mode & 0o170000) === 0o120000 ? readlinkSync(path) : '';
      return [name, { mode, uid, gid, mtimeMs, rdev, nlink, content, target, attributes: attributes(path) }];
    }),
  );
}

const describeNames = (dir: string) => readdirSync(dir, { recursive: true, encoding: 'latin1' }).sort();

t.test('owners, modes, times, links, attributes and nodes are as they were', (t) => {
  const { run } = makeRoot(t);
  mkdirSync(join(run, 'app/deep/er'), { recursive: true });
  writeFileSync(join(run, 'app/seed'), 'seed\n', { mode: 0o640 });
  writeFileSync(join(run, 'app/large'), 'x'.repeat(200_000));
  writeFileSync(join(run, 'program'), 'p');
  chownSync(join(run, 'program'), 4, 5);
  chmodSync(join(run, 'program'), 0o6755);
  linkSync(join(run, 'program'), join(run, 'app/deep/same'));
  writeFileSync(join(run, 'able'), '');
  execFileSync('setcap', ['cap_net_raw+ep', join(run, 'able')]);
  setAttribute(join(run, 'app'), 'trusted.mine', 'value');
  chownSync(join(run, 'app'), 1001, 1002);
  chmodSync(join(run, 'app'), 0o3750);
  symlinkSync('../etc/passwd', join(run, 'out'));
  symlinkSync('/proc/kcore', join(run, 'far'));
  symlinkSync('nowhere', join(run, 'app/dangling'));
  lchownSync(join(run, 'app/dangling'), 7, 8);
  lutimesSync(join(run, 'app/dangling'), 1e9, 1e9);
  execFileSync('mkfifo', ['-m', '620', join(run, 'pipe')]);
  execFileSync('mknod', ['-m', '666', join(run, 'disk'), 'b', '8', '0']);
  execFileSync('mknod', ['-m', '666', join(run, 'null'), 'c', '1', '3']);
  mkdirSync(join(run, 'sandbox'));
  writeFileSync(join(run, 'sandbox/id'), 'of another');
  writeFileSync(join(run, 'app/sandbox'), 'is nobody’s');
  for (const name of ['app/deep', 'app', '.']) utimesSync(join(run, name), 1.25e9, 1.25e9);
  chmodSync(run, 0o1775);
  chownSync(run, 3, 9);
  const before = describe(run);
  t.equal(move(run), 0);
  t.ok(isInMemory(run));
  for (const name of ['sandbox', 'sandbox/id']) delete before[name];
  // The parent loses one subdirectory; tmpfs directories count no others.
  const seen = describe(run);
  const countless = (tree: Record<string, unknown>) =>
    Object.fromEntries(
      Object.entries(tree).map(([name, about]) => {
        const entry = about as { mode: number; nlink: number };
        return [name, (entry.mode & 0o170000) === 0o040000 ? { ...entry, nlink: 0 } : entry];
      }),
    );
  t.same(countless(seen), countless(before));
  t.equal(lstatSync(join(run, 'program')).ino, lstatSync(join(run, 'app/deep/same')).ino);
  t.throws(() => readFileSync(join(run, 'null')), { code: 'EACCES' }, 'no device works there');
  t.end();
});

t.test('what is more than memory shall hold stays where it is, whole', (t) => {
  const cases: Record<string, [(run: string) => void, entries?: number, bytes?: number]> = {
    'too many entries': [
      (run) => {
        for (let n = 0; n < 12; n++) writeFileSync(join(run, `f${n}`), '');
      },
      11,
    ],
    'too many bytes': [(run) => writeFileSync(join(run, 'f'), 'x'.repeat(101)), MANY, 100],
    'a file that is a hole': [
      (run) => {
        writeFileSync(join(run, 'hole'), '');
        truncateSync(join(run, 'hole'), 2 ** 40);
      },
    ],
    'too many bytes together': [
      (run) => {
        for (let n = 0; n < 4; n++) writeFileSync(join(run, `f${n}`), 'x'.repeat(26));
      },
      MANY,
      100,
    ],
    'too deep': [(run) => mkdirSync(join(run, 'd/'.repeat(40)), { recursive: true })],
    'long links': [
      (run) => {
        for (let n = 0; n < 3; n++) symlinkSync('x'.repeat(50), join(run, `l${n}`));
      },
      MANY,
      100,
    ],
    'large attributes': [(run) => setAttribute(run, 'trusted.large', 'x'.repeat(101)), MANY, 100],
  };
  for (const [name, [fill, entries, bytes]] of Object.entries(cases)) {
    const { run } = makeRoot(t);
    mkdirSync(run);
    fill(run);
    const before = describeNames(run);
    t.equal(move(run, entries, bytes), TOO_MUCH, name);
    t.notOk(isInMemory(run), name);
    t.same(describeNames(run), before, name);
  }
  const { run } = makeRoot(t);
  mkdirSync(run);
  for (let n = 0; n < 11; n++) writeFileSync(join(run, `f${n}`), '');
  t.equal(move(run, 11, 0), 0, 'as much as is allowed is');
  t.end();
});

t.test('what is no directory gives way to one, with what a link led to', (t) => {
  const kinds: Record<string, [(root: string, run: string) => void, names: string[]]> = {
    nothing: [() => undefined, []],
    'a file': [(_root, run) => writeFileSync(run, 'x'), []],
    'a pipe': [(_root, run) => void execFileSync('mkfifo', [run]), []],
    'a link to nowhere': [(_root, run) => symlinkSync('nowhere', run), []],
    'a link to itself': [(_root, run) => symlinkSync('run', run), []],
    'a link to a file': [
      (root, run) => {
        writeFileSync(join(root, 'f'), 'x');
        symlinkSync('f', run);
      },
      [],
    ],
    'a link to processes': [(_root, run) => symlinkSync('/proc/self', run), []],
    'a link by a process': [(_root, run) => symlinkSync('/proc/self/cwd', run), []],
    'a link to a directory': [
      (root, run) => {
        mkdirSync(join(root, 'var/run/app'), { recursive: true });
        symlinkSync('var/run', run);
      },
      ['app'],
    ],
    'a link to too much': [
      (root, run) => {
        for (let n = 0; n <= MANY; n++) {
          const path = join(root, `var/run/d${n}`);
          mkdirSync(dirname(path), { recursive: true });
          writeFileSync(path, '');
        }
        symlinkSync('var/run', run);
      },
      [],
    ],
  };
  for (const [name, [make, names]] of Object.entries(kinds)) {
    const { root, run } = makeRoot(t);
    make(root, run);
    t.equal(move(run), 0, name);
    t.ok(isInMemory(run), name);
    t.same(readdirSync(run), names, name);
    t.equal(lstatSync(run).mode & 0o7777, 0o755, name);
  }
  t.end();
});

t.test('what is mounted within stays out, and descriptors are closed', (t) => {
  const { run } = makeRoot(t);
  mkdirSync(join(run, 'mounted'), { recursive: true });
  mkdirSync(join(run, 'kept'));
  execFileSync('mount', ['-t', 'tmpfs', 'none', join(run, 'mounted')]);
  writeFileSync(join(run, 'mounted/secret'), '');
  const inner = execFileSync('findmnt', ['-n', '-o', 'TARGET', join(run, 'mounted')], { encoding: 'utf8' });
  t.equal(inner.trim(), join(run, 'mounted'));
  const before = readdirSync('/proc/self/fd').length;
  t.equal(move(run), 0);
  t.same(readdirSync(run), ['kept']);
  t.equal(move(join(run, 'kept'), 0, 0), 0);
  t.equal(readdirSync('/proc/self/fd').length, before);
  execFileSync('umount', [join(run, 'kept')]);
  execFileSync('umount', [run]);
  execFileSync('umount', [join(run, 'mounted')]);
  t.end();
});
