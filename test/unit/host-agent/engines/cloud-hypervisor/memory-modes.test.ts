// The choice of a memory mode, with a fake VMM.
import { pino } from 'pino';
import t from 'tap';
import { ApiError } from '../../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import {
  MemoryModes,
  refusalSchema,
  requestOf,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/memory-modes.ts';
import type { ForkMemory } from '../../../../../host-agent/src/engines/engine.ts';

const refusal = (...reasons: string[]) => new ApiError('vm.restore', 500, reasons);
const UNKNOWN = refusal('Failed', 'unknown variant `CopyOnWrite`');

/** Uses the modes; those in `errors` fail with that error. Returns the tried modes and the resulting error. */
async function use(modes: MemoryModes, errors: Record<string, Error>) {
  const tried: string[] = [];
  const lines: { readonly mode: string; readonly refusals: string[]; readonly msg: string }[] = [];
  const log = pino(
    { base: null, timestamp: false },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  );
  const attempt = async ({ name }: { readonly name: string }): Promise<void> => {
    tried.push(name);
    const error = errors[name];
    if (error !== undefined) throw error;
  };
  const error = await modes.use(attempt, log).then(
    () => undefined,
    (cause: unknown) => cause as Error,
  );
  return { tried, lines, error };
}

t.test('the best that works is used, and what does not is not tried again', async (t) => {
  const modes = new MemoryModes('auto');
  t.equal(modes.describe(), 'copies get their memory by CopyOnWrite');
  t.equal(modes.obstacle, undefined);
  const first = await use(modes, { CopyOnWrite: UNKNOWN });
  t.same(first.tried, ['CopyOnWrite', 'MappedFile']);
  const why = ['CopyOnWrite: this version does not have it'];
  const told = `copies get their memory by MappedFile (${why})`;
  t.match(first.lines, [{ mode: 'MappedFile', refusals: why, msg: told }]);
  t.same(await use(modes, {}), { tried: ['MappedFile'], lines: [], error: undefined });
  t.same(modes.refused, [{ name: 'CopyOnWrite', why: 'this version does not have it' }]);
  const other = await use(modes, { MappedFile: refusal('no such thing') });
  t.same(other.tried, ['MappedFile', 'OnDemand']);
  t.equal(other.lines.length, 1, 'that it is another is told once more');
  t.match(modes.refused[1], { name: 'MappedFile', why: 'vm.restore: no such thing' });
  const noFaults = await use(modes, { OnDemand: refusal('On-demand restore failed', 'x') });
  t.same(noFaults.tried, ['OnDemand', 'Copy']);
  t.match(modes.refused[2], {
    name: 'OnDemand',
    why: 'userfaultfd cannot be used: vm.restore: On-demand restore failed: x',
  });
  t.equal(
    modes.describe(),
    `copies get their memory by Copy (${modes.refused.map(({ name, why }) => `${name}: ${why}`).join('; ')})`,
  );
  const none = await use(modes, { Copy: UNKNOWN });
  t.match(
    none.error?.message,
    /^no memory mode works: CopyOnWrite: .*; Copy: this version does not have it$/,
  );
  t.equal(modes.obstacle, none.error?.message);
  t.match(modes.describe(), /^copies get their memory by no way at all \(/);
  t.same(await use(modes, {}), { tried: [], lines: [], error: none.error });
});

t.test('a failure that says nothing of the mode ends it, and costs no mode', async (t) => {
  const modes = new MemoryModes('auto');
  const full = refusal('No space left on device');
  t.same(await use(modes, { CopyOnWrite: full }), { tried: ['CopyOnWrite'], lines: [], error: full });
  const broken = new Error('broken pipe');
  const mapped = await use(modes, { CopyOnWrite: UNKNOWN, MappedFile: broken });
  t.same([mapped.tried, mapped.error], [['CopyOnWrite', 'MappedFile'], broken], 'no answer is no refusal');
  // The next mode fails as well: the mode was not the cause.
  const both = await use(modes, { MappedFile: full, OnDemand: broken });
  t.same([both.tried, both.error], [['MappedFile', 'OnDemand'], broken]);
  t.equal(modes.refused.length, 1);
  t.match(modes.describe(), /by MappedFile \(/);
  const faults = new Error('userfaultfd');
  const silent = await use(modes, { MappedFile: full, OnDemand: faults });
  t.equal(silent.error, faults, 'what the VMM did not say says nothing of it');
  const allMapped = new MemoryModes('copy-on-write');
  const last = await use(allMapped, { CopyOnWrite: refusal('userfaultfd'), MappedFile: full });
  t.match(last, { tried: ['CopyOnWrite'], error: { message: 'vm.restore: userfaultfd' } });
  const lone = await use(allMapped, { CopyOnWrite: UNKNOWN, MappedFile: full });
  t.equal(lone.error, full, 'the last one’s own failure');
  t.equal(allMapped.obstacle, undefined);
  const odd = await use(new MemoryModes('copy'), { Copy: 'a text' as unknown as Error });
  t.equal(odd.error as unknown, 'a text');
});

t.test('only what was asked for is used', async (t) => {
  for (const [wanted, expected] of [
    ['copy-on-write', ['CopyOnWrite', 'MappedFile']],
    ['on-demand', ['OnDemand']],
    ['copy', ['Copy']],
    ['auto', ['CopyOnWrite', 'MappedFile', 'OnDemand', 'Copy']],
  ] as const) {
    const modes = new MemoryModes(wanted as ForkMemory);
    const errors = { CopyOnWrite: UNKNOWN, MappedFile: UNKNOWN, OnDemand: UNKNOWN, Copy: UNKNOWN };
    t.same((await use(modes, errors)).tried, expected);
  }
  t.same((['CopyOnWrite', 'MappedFile', 'OnDemand', 'Copy'] as const).map(requestOf), [
    'CopyOnWrite',
    'Copy',
    'OnDemand',
    'Copy',
  ]);
});

t.test('what a program knows is learnt by asking, and remembered by others', async (t) => {
  const learn = async (modes: MemoryModes, version: string, answers: (request: string) => unknown) => {
    const asked: string[] = [];
    await modes.learn(version, async (request) => {
      asked.push(request);
      throw answers(request);
    });
    return asked;
  };
  const modes = new MemoryModes('auto');
  const known = refusal('VM is already created');
  t.same(await learn(modes, '53.0', (request) => (request === 'CopyOnWrite' ? UNKNOWN : known)), [
    'CopyOnWrite',
    'Copy',
  ]);
  t.same(modes.refused, [{ name: 'CopyOnWrite', why: 'this version does not have it' }]);
  const newer = new MemoryModes('auto');
  const asked = await learn(newer, '54.0', (request) => (request === 'OnDemand' ? known : UNKNOWN));
  t.same(asked, ['CopyOnWrite', 'OnDemand']);
  t.same(
    newer.refused.map(({ why }) => why),
    ['this version does not have it', 'not tried with this version'],
  );
  t.same(await learn(new MemoryModes('auto'), '53.0', () => new Error('unknown variant')), ['CopyOnWrite']);
  t.same(await learn(new MemoryModes('copy'), '53.0', () => UNKNOWN), ['Copy']);
  let count = 0;
  const willing = new MemoryModes('auto');
  await willing.learn('53.0', async () => void count++);
  t.same([count, willing.refused], [1, []]);
  const other = new MemoryModes('auto');
  other.recall([...newer.refused, ...newer.refused]);
  t.same(other.refused, newer.refused);
  t.match(other.describe(), /by OnDemand/);
  const narrow = new MemoryModes('copy');
  narrow.recall(newer.refused);
  t.same(narrow.refused, []);
  t.equal(narrow.describe(), 'copies get their memory by Copy');
  t.match((await use(narrow, {})).lines, [{ mode: 'Copy', refusals: [], msg: narrow.describe() }]);
  for (const refused of newer.refused) t.same(refusalSchema.parse(refused), refused);
  t.throws(() => refusalSchema.parse({ name: 'x', why: '' }));
});

t.test('several copies that find out at the same time refuse a mode once', async (t) => {
  const modes = new MemoryModes('auto');
  await Promise.all([1, 2, 3].map(() => use(modes, { CopyOnWrite: UNKNOWN })));
  t.equal(modes.refused.length, 1);
  t.match(modes.describe(), /by MappedFile/);
});
