// Bodies on a connection without HTTP's parser: their end is found however they are split, and what is no body is refused.
import fc from 'fast-check';
import t from 'tap';
import { BodyCollector } from '../../../../../host-agent/src/http/server/hijack.ts';

const CHUNKED = { 'transfer-encoding': 'chunked' };
const MAX_BYTES = 1000;
const BEHIND = 'frames behind the body';

/** What is read of `text`, given in parts that end where `cuts` say; and what is left. */
function collect(headers: Record<string, string>, text: string, cuts: readonly number[] = []) {
  const collector = new BodyCollector(headers, MAX_BYTES);
  const rest: Buffer[] = [];
  let from = 0;
  for (const to of [...cuts, text.length].sort((a, b) => a - b)) {
    rest.push(collector.push(Buffer.from(text.slice(from, to), 'latin1')));
    from = to;
  }
  return {
    body: collector.body.toString('latin1'),
    rest: Buffer.concat(rest).toString(),
    isDone: collector.isDone,
  };
}

t.test('the end of a body is found, split anyhow', async (t) => {
  const chunked = '5;x=y\r\nhello\r\nB \t\r\n, my\r\nworld\r\n0\r\nTrailer: 1\r\n\r\n';
  const forms: [Record<string, string>, string, string][] = [
    [CHUNKED, chunked, 'hello, my\r\nworld'.slice(0, 16)],
    [{ 'transfer-encoding': 'Chunked' }, '0\r\n\r\n', ''],
    [{ 'content-length': '5' }, 'hello', 'hello'],
    [{ 'content-length': '0' }, '', ''],
    [{}, '', ''],
  ];
  for (const [headers, text, body] of forms) {
    const whole = `${text}${BEHIND}`;
    fc.assert(
      fc.property(fc.array(fc.nat(whole.length), { maxLength: 8 }), (cuts) => {
        const got = collect(headers, whole, cuts);
        return got.body === body && got.rest === BEHIND && got.isDone;
      }),
    );
    if (text !== '') t.notOk(collect(headers, text.slice(0, -1)).isDone, 'a byte is missing');
    t.equal(new BodyCollector(headers, MAX_BYTES).isDone, text === '', 'of nothing nothing is waited for');
  }
});

t.test('an invalid chunked body is refused', async (t) => {
  const line = 'x'.repeat(4096);
  for (const [text, message] of [
    ['5\nhello', /a line does not end in CR LF/],
    ['g\r\n', /a chunk size is not hexadecimal/],
    ['\r\n', /a chunk size is not hexadecimal/],
    ['-1\r\n', /a chunk size is not hexadecimal/],
    ['100000000\r\n', /a chunk size is not hexadecimal/],
    ['5\r\nhello!\r\n', /a chunk is longer than its size/],
    [`5;${line}`, /a line of it is too long/],
    [`0\r\n${'A: 1\r\n'.repeat(65)}`, /too many trailers/],
  ] as const) {
    t.throws(() => collect(CHUNKED, text), { code: 'invalid_argument', message });
  }
  t.ok(collect(CHUNKED, `0;${line.slice(3)}\r\n\r\n`).isDone, 'the longest line');
  t.ok(collect(CHUNKED, `0\r\n${'A: 1\r\n'.repeat(64)}\r\n`).isDone, 'the most trailers');
  t.throws(() => collect({ 'transfer-encoding': 'gzip' }, ''), {
    message: /transfer-encoding "gzip" is not known/,
  });
});

t.test('a body is as large as it may be, and not larger', async (t) => {
  const full = 'x'.repeat(MAX_BYTES);
  t.equal(collect({ 'content-length': '1000' }, full).body, full);
  t.throws(() => collect({ 'content-length': '1001' }, ''), {
    code: 'too_large',
    message: /over 1000 bytes/,
  });
  t.equal(collect(CHUNKED, `1f4\r\n${full.slice(500)}\r\n1F4\r\n${full.slice(500)}\r\n0\r\n\r\n`).body, full);
  t.throws(() => collect(CHUNKED, `1f4\r\n${full.slice(500)}\r\n1f5\r\n`), { code: 'too_large' });
});
