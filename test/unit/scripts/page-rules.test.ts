// `make check` refuses pages with long lines, large cells and words of a private language.
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import {
  findCodeFaults,
  findMessageFaults,
  findPageFaults,
  MAX_CELL_CHARS,
  MAX_LINE_CHARS,
  PRIVATE_WORDS,
} from '../../../scripts/page-rules.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const find = (text: string) => findPageFaults('page.md', text);

t.test('a line and a cell may be as long as the limit, and no longer', (t) => {
  const line = (chars: number) => `${'a '.repeat(chars / 2)}`;
  t.same(find(line(MAX_LINE_CHARS)), []);
  t.match(find(`fine\n${line(MAX_LINE_CHARS + 2)}`), ['page.md:2: a line of 122 characters']);
  t.same(find(`| a | ${'b'.repeat(MAX_CELL_CHARS)} |`), [], 'a row is measured by its cells');
  t.match(find(`| a | ${'b'.repeat(MAX_CELL_CHARS + 1)} |`), [/^page\.md:1: a table cell of 201 characters/]);
  t.match(find(`\`\`\`\n| ${line(MAX_LINE_CHARS)} |\n\`\`\``), [/^page\.md:2: a line/], 'code has no tables');
  t.same(find(`see https://example.com/${'a'.repeat(MAX_LINE_CHARS)}`), [], 'an address cannot be broken');
  t.same(find(`| a \\| ${'b'.repeat(90)} | ${'c'.repeat(150)} |`), [], 'a bar that is escaped ends no cell');
  t.end();
});

t.test('each private word is refused in prose, and allowed in code', (t) => {
  const samples = [
    'Somebody waits.',
    'It starts anew.',
    'It runs all the same.',
    'What it has in hand is lost.',
    'The pull came to nothing.',
    'It goes on behind the answer.',
    'A stranger asks.',
    'The guest stood still.',
    'There is no room.',
    'It is none of ours.',
    'The client is told.',
    'Between two looks nothing happens.',
  ];
  t.equal(samples.length, PRIVATE_WORDS.length);
  for (const [at, sample] of samples.entries()) {
    t.match(find(sample), [new RegExp(`write ${PRIVATE_WORDS[at]?.instead}`)], sample);
    t.same(find(`\`${sample}\``), []);
    t.same(find(`\`\`\`\n${sample}\n\`\`\``), []);
    t.same(find(`    ${sample}`), []);
  }
  t.same(find('SandboxdNoRoom, a mushroom, [words](a-room.md)'), []);
  t.end();
});

t.test('the pages are as they must be', (t) => {
  const pages = [...globSync('*.md', { cwd: ROOT }), ...globSync('docs/**/*.md', { cwd: ROOT })];
  t.ok(pages.length > 30);
  t.same(
    pages.flatMap((page) => findPageFaults(page, readFileSync(join(ROOT, page), 'utf8'))),
    [],
  );
  t.end();
});

t.test('messages of code have the words of pages', (t) => {
  const of = (text: string) => findMessageFaults('a.ts', text);
  t.match(of('throw new Error(`cannot: somebody took it`);'), [/^a\.ts:1: "somebody": write a client/]);
  t.match(of("say('nothing', 'it began anew')"), [/"anew"/]);
  t.same(of("const user = 'nobody'; // somebody else's"), [], 'a name is no message');
  t.same(of("log('no room for the image')"), []);
  t.end();
});

t.test('comments of code have the words of pages, and the length', (t) => {
  const of = (text: string) => findCodeFaults('a.ts', text);
  t.same(of('const room = 1; // the capacity'), []);
  t.match(of('const a = 1; // the room'), [/^a\.ts:1: "room": write a module/]);
  t.match(of('/** Somebody. */'), [/"Somebody"/]);
  t.match(of('x\n * It waits anew.'), [/^a\.ts:2: "anew"/]);
  t.match(of('// `anew` is a name, said the test'), [/"said"/]);
  t.same(of("const url = 'https://nobody.example';"), [], 'a text is no comment');
  t.match(of(`// ${'a '.repeat(60)}`), [/^a\.ts:1: a comment of 123 characters/]);
  t.same(of(`const a = '${'a '.repeat(60)}';`), []);
  t.end();
});
