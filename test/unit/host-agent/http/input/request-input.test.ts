// Texts of a request that are refused: the place and the piece that are named.
import { ROUTES } from '@sandboxd/api';
import fc from 'fast-check';
import t from 'tap';
import type { HttpContext } from '../../../../../host-agent/src/http/context.ts';
import { findJsonError } from '../../../../../host-agent/src/http/input/json-body.ts';
import { decodeText, readInput, readQuery } from '../../../../../host-agent/src/http/input/request-input.ts';

t.test('truncated JSON is wrong at its last byte, trailing text where it begins', async (t) => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 4 }), fc.constantFrom('', ' ', '\n'), (text, space) => {
      const cut = `[${text}${space}`;
      const lines = cut.split('\n');
      const atEnd = findJsonError(cut);
      t.same(atEnd, { line: lines.length, column: lines.at(-1)!.length + 1, reason: 'unexpected end' });
      const behind = findJsonError(`{"a": [${text}]}${space}]`);
      t.equal(behind.reason, 'unexpected "]"');
    }),
    { numRuns: 60 },
  );
  for (const [text, column, reason] of [
    ['{"a":1,}', 8, 'unexpected "}"'],
    ['[1,]', 4, 'unexpected "]"'],
    ['[1}', 3, 'unexpected "}"'],
    ['{"a" 1}', 6, 'unexpected "1"'],
    ['{1:2}', 2, 'unexpected "1"'],
    ['[[],{}]x', 8, 'unexpected "x"'],
    ['{"a":{"b":[]},"c"}', 18, 'unexpected "}"'],
    ['"\n"', 1, 'unfinished or invalid string'],
    ['[01]', 3, 'unexpected "1"'],
  ] as const) {
    t.same(findJsonError(text), { line: 1, column, reason }, text);
  }
});

t.test('invalid % escapes and bytes that are not UTF-8 are named', async (t) => {
  t.equal(decodeText('%C3%A4%20b', 'path'), 'ä b');
  for (const [text, message] of [
    ['a%zz', 'path has a bad % escape, "%zz"; write % itself as %25'],
    ['a%2', 'path has a bad % escape, "%2"; write % itself as %25'],
    ['%C3%A4/%FF%41', 'path has a bad % escape, "%FF%41", which is not UTF-8; write % itself as %25'],
    ['a%00b', /^path has a NUL character, got "a.*b"; leave it out$/],
  ] as const) {
    t.throws(() => decodeText(text, 'path'), { code: 'invalid_argument', message });
  }
});

t.test('a parameter is found however its name is written, the first of several', async (t) => {
  t.equal(readQuery('/x?a=1&b=2&b=3', 'b'), '2');
  t.equal(readQuery('/x?%62=a%20b+c', 'b'), 'a b c');
  t.equal(readQuery('/x?b=a=b?c', 'b'), 'a=b?c');
  for (const url of ['/x', '/x?', '/x?b', '/x?b=', '/x?bb=1', '/x#?b=1', '/x?%zz=1'])
    t.equal(readQuery(url, 'b'), undefined);
  t.throws(() => readQuery('/x?b=%FF', 'b'), { message: /^query b has a bad % escape/ });
});

/** A request as a route has it; what its log lines are told. */
function context(path: string, body?: string) {
  const bindings: object[] = [];
  const url = `http://localhost${path}`;
  const c = {
    req: {
      url,
      header: () => undefined,
      raw: new Request(url, { method: 'POST', ...(body !== undefined && { body }) }),
    },
    get: () => ({ setBindings: (more: object) => bindings.push(more) }),
  } as unknown as HttpContext;
  return { c, bindings };
}

t.test(
  'path, query and body of a request, as its route defines them, and as they appear in the log',
  async (t) => {
    const id = 'sbx_0123456789abc';
    const exec = context(`/sandboxes/${id}/exec?stdin=1&other=2`, '{"cmd":["x"]}');
    const input = await readInput(exec.c, ROUTES.exec);
    t.match(input, { params: { id }, query: { stdin: true }, body: { cmd: ['x'] } });
    t.same(exec.bindings, [{ sandbox: id }]);
    const image = context('/images/ghcr.io/a/b%3Ac');
    t.match(await readInput(image.c, ROUTES.getImage), { params: { ref: 'ghcr.io/a/b:c' } });
    t.same(Object.values(image.bindings[0] ?? {}), ['ghcr.io/a/b:c']);
    const socket = await readInput(context(`/sandboxes/${id}/exec`, '{').c, ROUTES.execWebSocket);
    t.match(socket, { params: { id } });
    t.equal(socket.body, undefined, 'its first message is the request');
    const none = await readInput(context('/healthz?x=1', 'nothing').c, ROUTES.health);
    t.same(none, {
      params: undefined,
      query: undefined,
      body: undefined,
      warnings: ['unknown query parameter x'],
    });
    const files = await readInput(context(`/sandboxes/${id}/files?path=/a`, 'tar').c, ROUTES.pushFiles);
    t.equal(files.body, undefined, 'bytes are the route’s to read');
    t.equal(files.query.path, '/a');
    for (const [path, body, message] of [
      ['/sandboxes/x/exec?max_output_bytes=x', '{', /sandbox id/],
      [`/sandboxes/${id}/exec?max_output_bytes=x`, '{', /^query max_output_bytes must/],
      [`/sandboxes/${id}/exec`, '{', /^the body is not valid JSON/],
      [`/sandboxes/${id}/exec`, undefined, /^cmd must/],
      ['/sandboxes/%FF/exec', '{', /^sandbox id has a bad % escape/],
    ] as const)
      await t.rejects(readInput(context(path, body).c, ROUTES.exec), { code: 'invalid_argument', message });
  },
);
