// What the console makes of the listings of a guest and of the metrics of the daemon, without a browser.
import type { FileEntry } from '@sandboxd/client';
import t from 'tap';
import { describeBound, describeUse } from '../../../console/src/access/words.ts';
import { parseMetrics, quantileOf, sumOf, sumsBy } from '../../../console/src/host/metrics.ts';
import { withParents } from '../../../console/src/sandbox/files/read-directory.ts';
import { toRows } from '../../../console/src/sandbox/files/tree-rows.ts';

const entry = (path: string, type: FileEntry['type'] = 'directory') =>
  ({ path, type, name: path.split('/').at(-1) ?? '' }) as FileEntry;

t.test('the rows of a tree, whatever a guest lists', async (t) => {
  const listing = (...entries: FileEntry[]) => ({ entries, hasMore: false });
  const branches = new Map([
    [
      '/',
      listing(entry('/'), entry('/.'), entry('/..'), entry('//'), entry('/a'), entry('/b/c'), entry('b')),
    ],
    ['/a', listing(entry('/a/f', 'file'), entry('/a'), entry('/'), entry('/a/..'), entry('/aa'))],
    ['/a/f', listing(entry('/a/f/never'))],
    ['/..', listing(entry('/../x'))],
  ]);
  const shown = (open: readonly string[]) =>
    toRows(branches, new Set(open)).map((row) =>
      row.kind === 'note' ? `${row.depth} ${row.text}` : `${row.depth} ${row.entry.path}`,
    );
  t.same(shown(['/', '/a', '/a/f', '/..']), ['1 /a', '2 /a/f']);
  t.same(shown(['/']), ['1 /a']);
  branches.delete('/a');
  t.same(shown(['/', '/a']), ['1 /a', '2 Loading…']);
  const full = new Map([['/', { entries: [entry('/x')], hasMore: true }]]);
  t.match(toRows(full, new Set(['/'])), [{ kind: 'entry' }, { kind: 'note', text: 'More are in the list' }]);
  t.match(toRows(new Map([['/', { problem: 'no' }]]), new Set()), [{ kind: 'note', text: 'no' }]);
  t.same(withParents('/srv/app'), ['/', '/srv', '/srv/app']);
  t.same(withParents('/'), ['/']);
});

t.test('metrics: sums, sums by a label, quantiles', async (t) => {
  const samples = parseMetrics(`# HELP x y
sandboxes{state="running"} 3
sandboxes{state="paused",more="a\\"}b"} 1
bytes 1.5e9
broken{ 1
nothing NaN
starts_bucket{origin="boot",le="0.5"} 0
starts_bucket{origin="boot",le="1"} 8
starts_bucket{origin="boot",le="+Inf"} 10
# EOF
`);
  t.equal(sumOf(samples, 'sandboxes'), 4);
  t.equal(sumOf(samples, 'sandboxes', { state: 'running' }), 3);
  t.equal(sumOf(samples, 'bytes'), 1.5e9);
  for (const name of ['nothing', 'broken', '__proto__']) t.equal(sumOf(samples, name), undefined);
  t.same(sumsBy(samples, 'sandboxes', 'state'), [
    ['running', 3],
    ['paused', 1],
  ]);
  const boot = { origin: 'boot' };
  t.equal(quantileOf(samples, 'starts', 0.4, boot), 0.75);
  t.equal(quantileOf(samples, 'starts', 0.95, boot), 1, 'the last bucket has no end');
  t.equal(quantileOf(samples, 'starts', 0.5, { origin: 'template' }), undefined);
});

t.test('bounds and limits in words', async (t) => {
  t.equal(describeBound('max_vcpus', 1), 'a sandbox has at most 1 CPU');
  t.equal(describeBound('net_allow_max', []), 'sandboxes have no network');
  t.equal(describeBound('net_require_inspect', true), 'networks have only rules whose requests are read');
  t.equal(describeBound('operations', ['view']), undefined);
  t.equal(describeBound('max_sandboxes', 3), undefined);
  t.equal(describeBound('of_later', ['a', 'b']), 'of later: a, b');
  t.equal(describeBound('constructor', 7), 'constructor: 7');
  t.equal(describeBound('max_vcpus', { a: 1 }), 'max vcpus: [object Object]');
  t.same(describeUse('max_memory_mib', 512, 2048), { name: 'Memory', text: '512 MiB of 2 GiB' });
  t.same(describeUse('constructor', 1, 2), { name: 'constructor', text: '1 of 2' });
});
