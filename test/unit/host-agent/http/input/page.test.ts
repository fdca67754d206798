// Pages of lists.
import fc from 'fast-check';
import t from 'tap';
import { type PageQuery, toPage } from '../../../../../host-agent/src/http/input/page.ts';

type Entry = { readonly atMs: number; readonly name: string };
const place = (entry: Entry) => entry;
const page = (all: readonly Entry[], query: PageQuery) => toPage(all, place, query);

t.test('without a limit it is all of it, as it is', async (t) => {
  const all = [
    { atMs: 2, name: 'b' },
    { atMs: 1, name: 'a' },
  ];
  t.same(page(all, {}), { entries: all, next: {} });
});

t.test(
  'pages in a row are the list, each entry once, whatever its place and the size of a page',
  async () => {
    const entries = fc.uniqueArray(
      fc.record({ atMs: fc.nat(5), name: fc.string({ unit: fc.constantFrom('a', 'b', ':'), minLength: 1 }) }),
      { selector: ({ atMs, name }) => `${atMs}:${name}`, maxLength: 20 },
    );
    fc.assert(
      fc.property(entries, fc.integer({ min: 1, max: 7 }), (all, limit) => {
        const seen: Entry[] = [];
        let cursor: string | undefined;
        do {
          const { entries: shown, next } = page(all, { limit, cursor });
          seen.push(...shown);
          cursor = next.next_cursor;
          if (cursor !== undefined && shown.length !== limit) throw new Error('a page that is not full');
        } while (cursor !== undefined);
        const order = ({ atMs: a, name: x }: Entry, { atMs: b, name: y }: Entry) => a - b || (x < y ? -1 : 1);
        if (JSON.stringify(seen) !== JSON.stringify([...all].sort(order)))
          throw new Error(JSON.stringify(seen));
      }),
    );
  },
);

t.test('resources created or deleted between two pages neither repeat nor hide others', async (t) => {
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name, atMs) => ({ name, atMs })) as [
    Entry,
    Entry,
    Entry,
    Entry,
  ];
  const { next } = page([a, b, c], { limit: 2 });
  const cursor = next.next_cursor;
  t.same(page([a, c, d], { limit: 2, cursor }).entries, [c, d], 'the last one of the page before is gone');
  t.same(page([a, b, c, d], { cursor }).entries, [c, d], 'a cursor alone: all of the rest');
  t.same(page([a, b], { limit: 2, cursor }), { entries: [], next: {} });
});

t.test('an invalid cursor is refused, and shown', async (t) => {
  for (const cursor of ['x', '%', Buffer.from('1').toString('base64url'), 'x'.repeat(200)])
    t.throws(() => page([], { limit: 1, cursor }), {
      code: 'invalid_argument',
      message: `query cursor must be the next_cursor of an earlier page, got ${JSON.stringify(cursor.slice(0, 80))}`,
    });
});
