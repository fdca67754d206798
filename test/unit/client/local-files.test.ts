// What the library and the command write here and read here, where another user can put and exchange names meanwhile.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { writeContexts } from '../../../client/src/command/context.ts';
import { writeWhole } from '../../../client/src/command/whole-file.ts';
import { SandboxdError } from '../../../client/src/errors.ts';

const { signal } = new AbortController();

async function* bytes(...parts: readonly (string | (() => void))[]): AsyncGenerator<Uint8Array, void> {
  for (const part of parts) {
    if (typeof part === 'string') yield Buffer.from(part);
    else part();
  }
}

/** A directory of somebody else, a directory that is none of his business, and a file in that. */
function makePlaces(t: Test) {
  const dir = t.testdir({ theirs: {}, private: { secret: 'secret' } });
  const [theirs, own] = [join(dir, 'theirs'), join(dir, 'private')];
  const secret = join(own, 'secret');
  const assertUntouched = () => {
    t.equal(readFileSync(secret, 'utf8'), 'secret');
    t.same(readdirSync(own), ['secret']);
  };
  /** Another user gives his directory another name, and a link has the one it had. */
  const exchange = (path: string) => {
    renameSync(path, `${path}-moved`);
    symlinkSync(own, path);
  };
  return { dir, theirs, own, secret, assertUntouched, exchange };
}

t.test(
  'a file that is written whole follows no link, neither one that was there nor one that comes',
  async (t) => {
    const { theirs, secret, assertUntouched, exchange } = makePlaces(t);
    symlinkSync(secret, join(theirs, `.out.${process.pid}.part`));
    symlinkSync(secret, join(theirs, 'out'));
    await writeWhole(join(theirs, 'out'), bytes('te', 'xt'), signal, 0o600);
    t.ok(lstatSync(join(theirs, 'out')).isFile(), 'a link of its name is replaced');
    t.equal(readFileSync(join(theirs, 'out'), 'utf8'), 'text');
    t.equal(statSync(join(theirs, 'out')).mode & 0o777, 0o600);
    assertUntouched();
    await writeWhole(
      join(theirs, 'secret'),
      bytes('te', () => exchange(theirs), 'xt'),
      signal,
    );
    t.equal(readFileSync(`${theirs}-moved/secret`, 'utf8'), 'text', 'it is where it was begun');
    assertUntouched();
  },
);

t.test('what fails leaves nothing, and a signal ends it', async (t) => {
  const { theirs } = makePlaces(t);
  const ended = new AbortController();
  const cut = bytes('te', () => ended.abort(new Error('enough')), 'xt');
  await t.rejects(writeWhole(join(theirs, 'out'), cut, ended.signal), { message: 'enough' });
  t.same(readdirSync(theirs), []);
});

t.test('a device or a pipe, and what leads to one, is not replaced by a file', async (t) => {
  const { theirs } = makePlaces(t);
  execFileSync('mkfifo', [join(theirs, 'pipe')]);
  symlinkSync('/dev/null', join(theirs, 'null'));
  for (const name of ['pipe', 'null'])
    await t.rejects(writeWhole(join(theirs, name), bytes('x'), signal), {
      constructor: SandboxdError,
      message: /is no file, and would be replaced by one/,
    });
  t.equal(readlinkSync(join(theirs, 'null')), '/dev/null');
  t.same(readdirSync(theirs).sort(), ['null', 'pipe']);
});

t.test('contexts are written through no link', (t) => {
  const { theirs, secret, assertUntouched } = makePlaces(t);
  const path = join(theirs, 'sandbox/contexts.json');
  mkdirSync(join(theirs, 'sandbox'));
  symlinkSync(secret, `${path}.${process.pid}`);
  chmodSync(secret, 0o640);
  writeContexts({ contexts: { near: { host: 'http://x' } } }, path);
  assertUntouched();
  t.equal(statSync(secret).mode & 0o777, 0o640);
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.same(readdirSync(join(theirs, 'sandbox')).sort(), ['contexts.json', `contexts.json.${process.pid}`]);
  writeFileSync(path, 'x');
  t.end();
});
