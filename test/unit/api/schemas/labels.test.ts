// Labels, names and label filters.
import { labels, labelsPatch, MAX_LABELS, objectName, toJsonSchema } from '@sandboxd/api';
import t from 'tap';
import { z } from 'zod';
import { accept, refuse } from '../support/ask.ts';

const body = z.object({ labels: labels.optional(), name: objectName.optional() });
const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v']));

t.test('keys and values have the syntax of Kubernetes', (t) => {
  const long = 'a'.repeat(63);
  for (const given of [
    {},
    { a: '' },
    { A: 'B' },
    { 'app.kubernetes.io/name': 'web' },
    { [long]: long },
    { [`${`${long}.`.repeat(3)}${'b'.repeat(61)}/${long}`]: '' },
    { 'a-_.b': 'a-_.b' },
    { constructor: 'x', toString: '1' },
    many(MAX_LABELS),
  ])
    t.same(accept(body, { labels: given }).labels, given);
  for (const key of [
    '',
    '-a',
    'a-',
    '.a',
    'a b',
    'a=b',
    'a,b',
    'ä',
    'a\n',
    '__proto__',
    '/a',
    'a/',
    'a/b/c',
    'A.example/b',
    'a..b/c',
    'a'.repeat(64),
    `${'a'.repeat(64)}/b`,
    `${`${long}.`.repeat(3)}${'b'.repeat(62)}/c`,
  ])
    t.match(
      refuse(body, JSON.parse(`{"labels":{${JSON.stringify(key)}:"v"}}`)),
      /^labels must have keys of Kubernetes' syntax/,
      key,
    );
  for (const value of ['-a', 'a-', 'a b', 'a/b', 'ä', 'a\n', 'a\0', 'a'.repeat(64), 1, true, null, {}, ['a']])
    t.match(refuse(body, { labels: { k: value } }), /^labels\.k must be at most 63 /);
  for (const other of ['a', 1, ['a'], true])
    t.match(refuse(body, { labels: other }), /^labels must be an object of strings/);
  t.match(refuse(body, { labels: many(MAX_LABELS + 1) }), 'labels must have at most 64 labels, got 65');
  t.end();
});

t.test('a hostile object of labels costs one sentence', (t) => {
  const labels = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`-${at}`, '-']));
  t.ok(refuse(body, { labels }).length < 200);
  t.end();
});

t.test('changes may remove labels', (t) => {
  const changes = z.object({ labels: labelsPatch });
  t.same(accept(changes, { labels: { a: '1', b: null } }).labels, { a: '1', b: null });
  t.match(refuse(changes, { labels: { a: 1 } }), /^labels\.a must be/);
  t.end();
});

t.test('names are DNS labels', (t) => {
  for (const name of ['a', '0', 'a-b', 'a'.repeat(63)]) t.equal(accept(body, { name }).name, name);
  for (const name of ['', 'A', '-a', 'a-', 'a.b', 'a_b', 'a'.repeat(64), 'ä', 'a\n'])
    t.match(refuse(body, { name }), /^name must be a DNS label: at most 63 /, name);
  t.end();
});

t.test('the documents describe them', (t) => {
  t.match(toJsonSchema(body), { properties: { labels: { type: 'object', maxProperties: MAX_LABELS } } });
  t.end();
});
