// The pages of the Debian package: each is there once, and no link leads to what the package lacks.
import { readFileSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';
import t from 'tap';
import { renderPages } from '../../../scripts/package/pages.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const pages = renderPages(ROOT);

t.test('pages keep their folders, so that none takes the place of another', (t) => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8').split('\n')[0];
  t.equal(String(pages['README.md']).split('\n')[0], readme);
  t.match(String(pages['docs/README.md']), '# Documentation');
  t.ok(pages['docs/operate.md'] && pages['docs/measurements/bench.md'] && pages['docs/openapi.json']);
  t.ok(pages['docs/examples/docker-profile.json'] && pages['docs/alerts.yml']);
  t.end();
});

t.test('links lead to files and folders of the package', (t) => {
  const there = new Set(Object.keys(pages).flatMap((path) => [path, `${dirname(path)}/`]));
  let count = 0;
  for (const [path, text] of Object.entries(pages).filter(([path]) => path.endsWith('.md')))
    for (const [, target = ''] of String(text).matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)) {
      t.ok(there.has(normalize(join(dirname(path), target))), `${path}: ${target}`);
      count++;
    }
  t.ok(count > 100);
  t.end();
});

t.test('a link to a source file becomes its text', (t) => {
  t.match(String(pages['docs/install.md']), 'debian/sandboxd.service');
  t.notMatch(String(pages['docs/install.md']), '../debian/sandboxd.service');
  t.match(String(pages['docs/security.md']), '](hardening.md)');
  t.end();
});

t.test('what the package prints names a page that it has', (t) => {
  const text = readFileSync(join(ROOT, 'debian/sandboxd.preinst'), 'utf8');
  const [, named = ''] = /\/usr\/share\/doc\/sandboxd\/([\w./-]+\.md)/.exec(text) ?? [];
  t.ok(pages[named], named);
  t.end();
});
