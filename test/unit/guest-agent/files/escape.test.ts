// Extraction below a destination: nothing is created outside, for any archive and any concurrent process.
import {
  chownSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t from 'tap';
import { archive, type Member, pax } from '../support/tar-blocks.ts';
import { freshDirectory, put, unpack } from '../support/unpack.ts';

t.test('a link of another user leads root to directories of that user only', (t) => {
  const USER = 64_999;
  const to = freshDirectory();
  const [home, secret] = [join(to, 'home'), join(to, 'secret')];
  mkdirSync(secret, { mode: 0o700 });
  for (const path of [home, join(home, 'own')]) {
    mkdirSync(path);
    chownSync(path, USER, USER);
  }
  const plant = (name: string, target: string, user = USER) => {
    symlinkSync(target, join(home, name));
    lchownSync(join(home, name), user, user);
  };
  plant('a', '../secret');
  plant('chain', 'a');
  plant('away', secret);
  plant('mine', 'own');
  plant('roots', '../secret', 0);
  plant('to-roots', 'roots');
  plant('up', 'own/../../secret');
  plant('loop', 'loop');
  const untouched = () => {
    t.equal(statSync(secret).mode & 0o777, 0o700);
    t.same(readdirSync(secret), []);
  };
  for (const name of ['a', 'chain', 'to-roots', 'up', 'loop']) {
    t.throws(
      () => put(to, { name: `home/${name}/x`, content: 'x' }),
      { message: /one that is not allowed/ },
      name,
    );
    t.throws(
      () => put(to, { name: 'good' }, { name: 'h', flag: '1', target: `home/${name}/x` }),
      { message: /one that is not allowed/ },
      name,
    );
    t.throws(() => put(join(home, name), { name: 'x' }), {
      message: /destination .* one that is not allowed/,
    });
    untouched();
  }
  t.throws(() => put(to, { name: 'home/away/x' }), { message: /leads out/ });
  t.throws(() => put(join(home, 'away'), { name: 'x' }), { message: /one that is not allowed/ });
  untouched();
  put(to, { name: 'home/mine/x', content: 'x' });
  t.equal(readFileSync(join(home, 'own/x'), 'latin1'), 'x', 'their own');
  put(to, { name: 'home/roots/x', content: 'x' });
  t.equal(readFileSync(join(secret, 'x'), 'latin1'), 'x', 'one of root’s');
  rmSync(join(secret, 'x'));
  // As in tar.
  put(to, { name: 'home/a/', flag: '5', mode: 0o777 }, { name: 'home/a/x', content: 'x' });
  untouched();
  t.ok(lstatSync(join(home, 'a')).isDirectory(), 'it gives way');

  // Between the directory's creation and its mode, which is set last.
  const swap: Member[] = [{ name: 'home/late/', flag: '5', mode: 0o777 }, { name: 'home/late/x' }];
  unpack(to, archive(swap), 65_536, () => {
    rmSync(join(home, 'late'), { recursive: true });
    plant('late', '../secret');
  });
  untouched();
  t.end();
});

t.test('nothing is written outside', (t) => {
  const dir = freshDirectory();
  const to = join(dir, 'to');
  const outside = join(dir, 'out');
  mkdirSync(outside);
  mkdirSync(to);
  writeFileSync(join(outside, 'secret'), 'secret');
  symlinkSync('../out', join(to, 'leaves'));
  symlinkSync(outside, join(to, 'leaves-absolutely'));
  symlinkSync('../out/made', join(to, 'leaf'));
  const good: Member = { name: 'good', content: 'good' };
  const cases: readonly (readonly [RegExp, ...Member[]])[] = [
    [/"\.\.\/x" leads out/, { name: '../x', content: 'x' }],
    [/"a\/..\/..\/x" leads out/, { name: 'a/../../x', content: 'x' }],
    [/"\/..\/x" leads out/, { name: '/../x', content: 'x' }],
    [/"..\/" leads out/, { name: '../', flag: '5' }],
    [/"leaves\/x" leads out/, { name: 'leaves/x', content: 'x' }],
    [/"leaves\/" leads out/, { name: 'leaves/', flag: '5', mode: 0o777 }],
    [/"leaves\/sub\/x" leads out/, { name: 'leaves/sub/x', content: 'x' }],
    [/"leaves-absolutely\/x" leads out/, { name: 'leaves-absolutely/x', content: 'x' }],
    [
      /"s" is a symbolic link to "..\/out", out of/,
      { name: 's', flag: '2', target: '../out' },
      { name: 's/x', content: 'x' },
    ],
    [
      /"s" is a symbolic link to "\/etc", out of/,
      { name: 's', flag: '2', target: '/etc' },
      { name: 's/x', content: 'x' },
    ],
    [/"d\/s" is a symbolic link/, { name: 'd/s', flag: '2', target: '../../out' }],
    // Two links, each harmless on its own.
    [
      /"a\/b\/s" is a symbolic link/,
      { name: 'a/b', flag: '2', target: '..' },
      { name: 'a/b/s', flag: '2', target: '../out' },
    ],
    [
      /"h" is a hard link, and "..\/out\/secret" leads out/,
      { name: 'h', flag: '1', target: '../out/secret' },
    ],
    [/"h" is a hard link, and "leaves\/secret" leads out/, { name: 'h', flag: '1', target: 'leaves/secret' }],
    [/"h" is a hard link, and "none" does not exist/, { name: 'h', flag: '1', target: 'none' }],
    [/"" is not a file name/, { name: '', content: 'x' }],
    [/"\." is the destination itself/, { name: '.', content: 'x' }],
    [/"x\\u0000y" is not a file name/, pax({ path: 'x\0y' }), { name: 'z' }],
    [/is too long a name/, pax({ path: `${'a/'.repeat(10_000)}x` }), { name: 'z' }],
    [
      /is too long a name/,
      { name: 'x', flag: '0', content: '' },
      pax({ path: 'a'.repeat(300) }),
      { name: 'z' },
    ],
    [/"fifo" is a FIFO/, { name: 'fifo', flag: '6' }],
    [/"dev" is a character device/, { name: 'dev', flag: '3' }],
    [/"dev" is a block device/, { name: 'dev', flag: '4' }],
    [/"pipe" is a FIFO/, { name: 'pipe', flag: '6' }],
  ];
  for (const [pattern, ...members] of cases) {
    rmSync(join(to, 'good'), { force: true });
    t.throws(() => put(to, good, ...members), { message: pattern }, String(pattern));
    t.equal(readFileSync(join(to, 'good'), 'latin1'), 'good', 'what came before stays');
    t.same(readdirSync(outside), ['secret']);
    t.same(readdirSync(dir).sort(), ['out', 'to']);
  }
  // A link that leads outside is replaced, not followed.
  put(to, { name: 'leaf', content: 'x' });
  t.same(readdirSync(outside), ['secret']);
  t.equal(readFileSync(join(outside, 'secret'), 'latin1'), 'secret');
  t.end();
});

t.test('any archive stays inside', (t) => {
  const dir = freshDirectory();
  const outside = join(dir, 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'f'), 'outside');
  const part = fc.constantFrom('a', 'b', 'c', '..', '.', '', 'outside', 'to', 'f');
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
  const member = fc.record({
    name: path,
    target: fc.oneof(
      path,
      path.map((rest) => `${dir}/${rest}`),
    ),
    flag: fc.constantFrom('0', '0', '1', '2', '2', '5'),
    content: fc.constantFrom('', 'x', 'y'.repeat(600)),
  });
  const to = join(dir, 'to');
  fc.assert(
    fc.property(
      fc.array(member, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 2000 }),
      (members, piece) => {
        rmSync(to, { recursive: true, force: true });
        // Each on its own, so that one refused member does not hide the others.
        for (const one of members) {
          try {
            unpack(to, archive([one]), piece);
          } catch (error) {
            if (!(error instanceof Error) || !['AgentError', 'TarError'].includes(error.name)) throw error;
          }
        }
        if (readdirSync(dir).some((name) => name !== 'to' && name !== 'outside'))
          throw new Error('something is beside');
        if (readdirSync(outside).join() !== 'f' || readFileSync(join(outside, 'f'), 'latin1') !== 'outside')
          throw new Error('something outside was changed');
      },
    ),
    { numRuns: 300 },
  );
  t.end();
});

t.test('links that are swapped in meanwhile lead nowhere', async (t) => {
  const dir = freshDirectory();
  const to = join(dir, 'to');
  const outside = join(dir, 'outside');
  mkdirSync(join(to, 'd/e'), { recursive: true });
  mkdirSync(join(outside, 'e'), { recursive: true });
  // A thread and not a process: Node's process API would take the exit events of children from the agents of other
  // tests.
  const swapper = new Worker(new URL('../support/swap-for-ever.ts', import.meta.url), {
    workerData: { to, outside },
  });
  await new Promise((resolve) => swapper.once('message', resolve));
  let refused = 0;
  let written = 0;
  const until = Date.now() + 2000;
  for (let n = 0; Date.now() < until; n++) {
    try {
      put(
        to,
        { name: 'd/', flag: '5', mode: 0o755 },
        { name: `d/x${n % 10}`, content: 'x' },
        { name: `d/e/y${n % 10}`, content: 'y' },
        { name: `d/l${n % 10}`, flag: '2', target: 'x' },
      );
      written += 1;
    } catch {
      refused += 1;
    }
  }
  await swapper.terminate();
  t.comment(`${written} extractions written, ${refused} refused`);
  t.ok(written > 0);
  t.same(readdirSync(outside), ['e']);
  t.same(readdirSync(join(outside, 'e')), []);
});
