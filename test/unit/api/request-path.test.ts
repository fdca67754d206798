// Paths of requests, and the patterns of rules.
import t from 'tap';
import { canonicalPath, isPathPattern, matchesPath } from '../../../api/src/request-path.ts';

t.test('a path has one meaning, or none', (t) => {
  for (const [path, canonical] of [
    ['/', '/'],
    ['/a/b/', '/a/b/'],
    ['/%41%7e%2d', '/A~-'],
    ['/a%20b', '/a%20b'],
    ['/%c3%bc', '/%C3%BC'],
    ['/a;b=c', '/a;b=c'],
    ['/100%25', '/100%25'],
    ["/!$&'()*+,=:@", "/!$&'()*+,=:@"],
  ] as const)
    t.equal(canonicalPath(path, false), canonical, path);
  for (const path of [
    ...[
      '',
      'a',
      '//',
      '/a//b',
      '/.',
      '/..',
      '/a/./b',
      '/a/../b',
      '/%2e%2e/b',
      '/.%2E',
      '/a;/../b',
      '/..;/b',
      '/..;x=1',
    ],
    ...[
      '/;x',
      '/%3bx',
      '/..%3bx',
      '/a\\b',
      '/a%5cb',
      '/a%2fb',
      '/%00',
      '/%0a',
      '/%7f',
      '/%252e',
      '/%ff',
      '/%c3',
      '/%',
      '/%4',
    ],
    ...['/a b', '/a?b', '/a#b', '/ü', '/a;..', '/a;b=%2f', '/"'],
  ])
    t.equal(canonicalPath(path, false), undefined, path);
  t.equal(canonicalPath('/@a%2fb', true), '/@a%2Fb');
  for (const path of ['/a%2f..', '/..%2fa', '/a%2f.%2fb'])
    t.equal(canonicalPath(path, true), undefined, path);
  t.end();
});

t.test('patterns: whole segments, and the rest', (t) => {
  for (const pattern of ['/', '/a', '/*', '/**', '/a/*/b', '/a/**', '/a%20b', '/@a%2Fb'])
    t.ok(isPathPattern(pattern), pattern);
  for (const pattern of [
    'a',
    '',
    '/a*',
    '/**/a',
    '/a/../b',
    '/a//b',
    '/a?b',
    '/a#b',
    '/%41',
    '/%2f',
    '/a/***',
  ])
    t.notOk(isPathPattern(pattern), pattern);
  const paths = ['/', '/a', '/a/', '/a/b', '/a/b/c', '/b/a'];
  const matching = (pattern: string) => paths.filter((path) => matchesPath(pattern, path));
  t.same(matching('/a'), ['/a']);
  t.same(matching('/*'), ['/a']);
  t.same(matching('/a/*'), ['/a/b']);
  t.same(matching('/a/**'), ['/a/', '/a/b', '/a/b/c']);
  t.same(matching('/**'), paths);
  t.same(matching('/*/b/c'), ['/a/b/c']);
  t.end();
});
