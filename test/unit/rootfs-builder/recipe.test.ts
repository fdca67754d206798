// Recipes: accepted input, error messages, and the inputs of a digest.
import {
  findRecipe,
  openRecipeBook,
  parseRecipe,
  recipeDigest,
  resolveRecipe,
} from '@sandboxd/rootfs-builder';
import fc from 'fast-check';
import t from 'tap';

t.test('the built-in recipes resolve, and inherit from base', async (t) => {
  const book = await openRecipeBook();
  t.same([...book.keys()].sort(), ['base', 'code', 'e2b-base', 'node', 'python-3.11']);
  const base = resolveRecipe(findRecipe(book, 'base'), book);
  const python = resolveRecipe(findRecipe(book, 'python-3.11'), book);
  const node = resolveRecipe(findRecipe(book, 'node'), book);
  t.equal(base.suite, 'bookworm');
  t.ok(base.packages.every((name) => python.packages.includes(name)));
  t.ok(python.packages.includes('python3'));
  t.equal(node.npmRuntime?.to, '/usr/local/bin/node');
  t.same(node.npmPackages, ['corepack', 'npm']);
  for (const recipe of [base, python, node])
    for (const name of ['ca-certificates', 'curl', 'git', 'kmod']) t.ok(recipe.packages.includes(name));
  for (const name of ['python3-pip', 'python3-venv']) t.ok(python.packages.includes(name));
  t.equal(node.env.LANG, 'C.UTF-8');
  t.equal(node.workdir, '/');
  const e2b = resolveRecipe(findRecipe(book, 'e2b-base'), book);
  t.same([e2b.users, base.users], [['user'], undefined], 'a recipe without users is as it was');
});

t.test('mistakes are refused with the field and the reason', async (t) => {
  const refused: [unknown, RegExp][] = [
    ['{', /is not JSON/],
    [{}, /name/],
    [{ name: 'x', packges: [] }, /packges/],
    [{ name: 'Upper' }, /name: lower-case/],
    [{ name: '../x' }, /name: lower-case/],
    [{ name: 'x', packages: ['a,b'] }, /packages\.0: a Debian package name/],
    [{ name: 'x', packages: ['--hook'] }, /packages\.0/],
    [{ name: 'x', suite: 'a b' }, /suite/],
    [{ name: 'x', variant: 'custom' }, /variant/],
    [{ name: 'x', workdir: 'relative' }, /workdir: an absolute path/],
    [{ name: 'x', files: [{ path: '/a/../b', content: '' }] }, /files\.0\.path/],
    [{ name: 'x', files: [{ path: '/.sandbox/agent', content: '' }] }, /not "\/" and not below/],
    [{ name: 'x', files: [{ path: '/a', content: '', mode: '999' }] }, /files\.0\.mode/],
    [{ name: 'x', files: [{ path: '/a', content: '', owner: 'me' }] }, /owner/],
    [{ name: 'x', env: { 'A B': '' } }, /env/],
    [{ name: 'x', env: { A: '\0' } }, /zero bytes/],
    [{ name: 'x', npmPackages: ['../x'] }, /npmPackages\.0: an npm package name/],
    [{ name: 'x', npmRuntime: { package: 'node', from: '../node', to: '/bin/node' } }, /npmRuntime\.from/],
  ];
  for (const [recipe, pattern] of refused) {
    t.throws(() => parseRecipe(recipe, 'x.json'), { code: 'recipe_invalid', message: pattern });
    t.throws(() => parseRecipe(recipe, 'x.json'), { message: /x\.json/ });
  }
});

t.test('unknown and circular parents are named', async (t) => {
  const a = parseRecipe({ name: 'a', extends: 'b' }, 'a');
  const b = parseRecipe({ name: 'b', extends: 'a' }, 'b');
  t.throws(() => resolveRecipe(a, new Map([['a', a]])), { code: 'recipe_unknown', message: /"b".*known: a/ });
  t.throws(() => resolveRecipe(a, new Map(Object.entries({ a, b }))), { message: /a → b → a/ });
});

t.test('a child adds packages and overrides files, variables and directory of its parent', async (t) => {
  const parent = parseRecipe(
    {
      name: 'parent',
      packages: ['b', 'aa'].map((name) => `${name}x`),
      files: [{ path: '/etc/x', content: 'old' }],
      env: { A: '1', B: '1' },
      workdir: '/srv',
    },
    'parent',
  );
  const child = parseRecipe(
    {
      name: 'child',
      extends: 'parent',
      packages: ['bx', 'cx'],
      files: [{ path: '/etc/x', content: 'new', mode: '0600' }],
      env: { B: '2' },
    },
    'child',
  );
  t.match(resolveRecipe(child, new Map([['parent', parent]])), {
    packages: ['aax', 'bx', 'cx'],
    files: [{ path: '/etc/x', content: 'new', mode: '0600' }],
    env: { A: '1', B: '2' },
    workdir: '/srv',
  });
});

const packageNames = fc.uniqueArray(fc.stringMatching(/^[a-z][a-z0-9+-]{1,8}$/), { maxLength: 6 });
const variables = fc.dictionary(fc.stringMatching(/^[A-Z_]{1,6}$/), fc.stringMatching(/^[a-z ]{0,8}$/), {
  maxKeys: 5,
});

t.test('the digest depends on what a recipe says, not on the order in which it says it', async () => {
  fc.assert(
    fc.property(packageNames, variables, (packages, env) => {
      const digest = (names: string[], entries: [string, string][]) =>
        recipeDigest(
          resolveRecipe(
            parseRecipe({ name: 'x', packages: names, env: Object.fromEntries(entries) }, 'x'),
            new Map(),
          ),
        );
      const one = digest(packages, Object.entries(env));
      const reordered = digest([...packages].reverse(), Object.entries(env).reverse());
      const more = digest([...packages, 'zz-more'], Object.entries(env));
      return one === reordered && one !== more;
    }),
  );
});

t.test('any JSON value is either a recipe or a recipe_invalid error', async () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      try {
        parseRecipe(JSON.stringify(value), 'x');
        return true;
      } catch (error) {
        return (error as { code?: string }).code === 'recipe_invalid';
      }
    }),
  );
});
