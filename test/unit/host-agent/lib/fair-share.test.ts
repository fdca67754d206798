// Eviction from a shared cache.
import t from 'tap';
import { chooseEvicted, type Kept } from '../../../../host-agent/src/lib/fair-share.ts';

type Named = Kept & { readonly name: string };

/** `a1 40`: owner a's first entry, size 40; `!` pinned; `-` common. In the order of last use. */
function entries(...texts: string[]): Named[] {
  return texts.map((text, usedAtMs) => {
    const [name = '', size] = text.split(' ');
    return {
      name,
      owner: name[0] === '-' ? undefined : name[0],
      size: Number(size),
      usedAtMs,
      isPinned: name.endsWith('!'),
    };
  });
}

const evicted = (most: number, ...texts: string[]) =>
  chooseEvicted(entries(...texts), most).map(({ name }) => name);

t.test('nothing goes while all of it fits', async (t) => {
  t.same(evicted(100), []);
  t.same(evicted(100, 'a1 50', 'b1 50'), []);
});

t.test('of one owner the longest unused goes first', async (t) => {
  t.same(evicted(100, 'a1 40', 'a2 40', 'a3 40', 'a4! 40'), ['a1', 'a2']);
});

t.test('who has more than others gives way, however lately it was used', async (t) => {
  t.same(evicted(100, 'a1 10', 'b1 30', 'b2 30', 'b3 30', 'b4! 30'), ['b1']);
  t.same(evicted(50, 'a1 10', 'b1 30', 'b2 30', 'b3 30'), ['b1', 'b2']);
});

t.test('two who have as much lose as much, down to an equal share', async (t) => {
  t.same(evicted(40, 'a1 20', 'b1 20', 'a2 20', 'b2 20').sort(), ['a1', 'b1']);
});

t.test('what is in use counts for its owner and stays', async (t) => {
  t.same(evicted(100, 'a1! 90', 'a2 10', 'b1 10', 'b2 10'), ['a2', 'b1']);
  t.same(evicted(10, 'a1! 90', 'b1! 10'), []);
});

t.test('what is common goes only while no owner has much', async (t) => {
  t.same(evicted(100, '-1 40', '-2 40', 'a1 20', 'a2 20', 'a3 20'), ['a1', 'a2']);
  t.same(evicted(100, '-1 40', '-2 40', 'a1 10', 'b1 20', 'c1 20'), ['-1']);
  t.same(evicted(100, '-1 60', '-2 60'), ['-1']);
});
