// JSON bodies: how deeply they may be nested, and the buffer that gathers them.
import { MAX_JSON_DEPTH, show } from '@sandboxd/api';
import t from 'tap';
import { readSignal } from '../../../../../host-agent/src/http/exec/exec-run.ts';
import { GrowingBuffer, parseJson } from '../../../../../host-agent/src/http/input/json-body.ts';

const nested = (depth: number, open = '[', close = ']') => `${open.repeat(depth)}1${close.repeat(depth)}`;

t.test('nesting beyond what any request has is refused before it is parsed', async (t) => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    t.ok(parseJson(Buffer.from(nested(MAX_JSON_DEPTH, open, close))));
    for (const depth of [MAX_JSON_DEPTH + 1, 150_000])
      t.throws(() => parseJson(Buffer.from(nested(depth, open, close))), {
        code: 'invalid_argument',
        message: /^the body is nested more than 100 levels deep/,
      });
  }
  const text = `\\"${'['.repeat(1000)}`;
  t.equal(parseJson(Buffer.from(JSON.stringify(text))), text, 'brackets in strings do not count');
  const wide = `[${'[],'.repeat(1000)}{}]`;
  t.equal((parseJson(Buffer.from(wide)) as unknown[]).length, 1001);
});

t.test('in frames of a command, too', async (t) => {
  const payload = Buffer.from(`{"signal": "SIGINT", "a": ${nested(MAX_JSON_DEPTH)}}`);
  t.match(readSignal({ type: 4, payload }), { problem: /got undefined|got nothing|missing/ });
});

t.test('a value that is nested too deeply to be shown', async (t) => {
  // A key of this name takes JSON.stringify off its way without recursion.
  const deep = nested(50_000, '[{"toJSON":1,"a":', '}]');
  t.equal(show(JSON.parse(deep)), 'a value that is nested too deeply');
});

t.test('pieces of any size are what was added, in order', async (t) => {
  const gathered = new GrowingBuffer();
  t.equal(gathered.bytes.length, 0);
  const pieces = ['', 'a', 'b'.repeat(1022), 'c', 'd', 'e'.repeat(5000), 'f'];
  for (const piece of pieces) gathered.add(Buffer.from(piece));
  t.equal(gathered.bytes.toString(), pieces.join(''));
  t.equal(gathered.sizeBytes, pieces.join('').length);
});

t.test('single bytes share memory', async (t) => {
  const gathered = new GrowingBuffer();
  const blocks = new Set<ArrayBufferLike>();
  for (let at = 0; at < 100_000; at++) {
    gathered.add(Uint8Array.of(at % 251));
    blocks.add(gathered.bytes.buffer);
  }
  t.ok(blocks.size < 20, `${blocks.size} blocks`);
  t.ok(gathered.bytes.buffer.byteLength <= 200_000);
  t.ok(gathered.bytes.every((byte, at) => byte === at % 251));
});
