// Text of others is written out where a terminal would obey it.
import fc from 'fast-check';
import t from 'tap';
import { renderCompletion } from '../../../client/src/command/completions.ts';
import { toVisible, toVisibleJson } from '../../../client/src/command/visible.ts';

t.test('what a terminal would obey is written out, and nothing else changes', async (t) => {
  t.equal(toVisible('nginx:1.25 – größer 名前 😀'), 'nginx:1.25 – größer 名前 😀');
  t.equal(toVisible('a\x1b[2J\nb\r\t\x07'), 'a\\u001b[2J\\nb\\r\\t\\u0007');
  t.equal(
    toVisible('x\x9b31m\x7f\u202etxt.exe\u2066\u2028'),
    'x\\u009b31m\\u007f\\u202etxt.exe\\u2066\\u2028',
  );
  t.equal(toVisible('\u{e0041}\ud800'), '\\udb40\\udc41\\ud800');
});

t.test('JSON stays the same value', async (t) => {
  t.equal(toVisibleJson({ a: '\u202e\x9b\x7f' }), '{"a":"\\u202e\\u009b\\u007f"}');
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2), (value, indent) => {
      const text = toVisibleJson(value, indent);
      t.notMatch(text, /[^\P{Cc}\n]|\p{Cf}/u);
      return JSON.stringify(JSON.parse(text)) === JSON.stringify(value);
    }),
  );
});

t.test('a shell completes with no word that it would run', async (t) => {
  const names = ['nginx:alpine', 'ghcr.io/a/b@sha256:ab', 'x;reboot', '$(reboot)', 'a b', 'a\nb', '`x`', "'"];
  const rendered = renderCompletion({
    candidates: names.map((name) => ({ name, help: 'of\x1b[2J\nme' })),
    hasFiles: false,
  });
  t.equal(rendered, 'nginx:alpine\tof\\u001b[2J\\nme\nghcr.io/a/b@sha256:ab\tof\\u001b[2J\\nme\n');
});
