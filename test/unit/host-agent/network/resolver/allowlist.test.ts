// The names that an allowlist allows.
import t from 'tap';
import { Allowlist } from '../../../../../host-agent/src/network/resolver/allowlist.ts';

t.test('an allowlist means names and exactly one more label', async (t) => {
  const list = new Allowlist(['a.example', '*.b.example', 'xn--bcher-kva.example']);
  for (const name of ['a.example', 'x.b.example', '_srv.b.example', 'xn--bcher-kva.example'])
    t.ok(list.allows(name), name);
  for (const name of [
    '',
    '.',
    'example',
    'b.example',
    'x.y.b.example',
    'xa.example',
    'a.example.',
    'a.example.evil',
    '*.b.example',
    '.b.example',
    'A.example',
    'x y.b.example',
    '-x.b.example',
    `${'x'.repeat(64)}.b.example`,
  ])
    t.notOk(list.allows(name), name);
});
