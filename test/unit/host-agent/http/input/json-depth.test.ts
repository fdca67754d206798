// How deeply a body may be nested.
import { MAX_JSON_DEPTH, show } from '@sandboxd/api';
import t from 'tap';
import { readSignal } from '../../../../../host-agent/src/http/exec/exec-run.ts';
import { parseJson } from '../../../../../host-agent/src/http/input/json-body.ts';

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
