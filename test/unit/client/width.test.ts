// Columns of a terminal that texts take.
import t from 'tap';
import { endOf, startOf, widthOf } from '../../../client/src/command/width.ts';

t.test('wide letters take two, what is combined none', async (t) => {
  for (const [text, columns] of [
    ['', 0],
    ['abc', 3],
    ['größe', 5],
    ['e\u0301', 1],
    ['日本', 4],
    ['🎉x', 3],
    ['한글', 4],
    ['ﾊ', 1],
    ['x'.repeat(5000), 5000],
  ] as const)
    t.equal(widthOf(text), columns, text.slice(0, 9));
});

t.test('what does not fit is cut between letters', async (t) => {
  t.equal(startOf('日本語', 5), '日本');
  t.equal(startOf('e\u0301e\u0301', 1), 'e\u0301');
  t.equal(startOf('abc', 3), 'abc');
  t.equal(startOf('日', 1), '');
  t.equal(endOf('abcdef', 4), '…def');
  t.equal(endOf('日本語', 6), '日本語');
  t.equal(endOf('日本語', 4), '…語');
  t.equal(endOf('abc', 1), '');
});
