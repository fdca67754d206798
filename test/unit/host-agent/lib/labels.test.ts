import t from 'tap';
import { matchesLabels } from '../../../../host-agent/src/lib/labels.ts';

t.test('labels match when every filter does', (t) => {
  const labels = { a: '1', b: '' };
  t.ok(matchesLabels(labels, undefined));
  t.ok(matchesLabels(undefined, []));
  t.ok(matchesLabels(labels, [{ key: 'a' }, { key: 'b', value: '' }]));
  t.notOk(matchesLabels(labels, [{ key: 'a' }, { key: 'b', value: '1' }]));
  t.notOk(matchesLabels(undefined, [{ key: 'a' }]));
  t.notOk(matchesLabels(labels, [{ key: 'constructor' }]));
  t.end();
});
