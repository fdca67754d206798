// Finds the position of a JSON syntax error. The message of JSON.parse often has no position.

export type JsonError = { readonly line: number; readonly column: number; readonly reason: string };

const LITERAL = /true|false|null/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON strings may not hold them.
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;

/** Only for a text that JSON.parse refused. Iterative, so that deep nesting cannot exhaust the stack. */
export function findJsonError(text: string): JsonError {
  const stack: ('{' | '[')[] = [];
  let at = 0;
  let expects: 'value' | 'key' | 'key or }' | 'value or ]' | 'colon' | 'comma' = 'value';
  const match = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };
  for (;;) {
    match(SPACE);
    const char = text[at];
    if (expects === 'comma') {
      const open = stack.at(-1);
      if (open === undefined) break;
      if (char === (open === '{' ? '}' : ']')) stack.pop();
      else if (char === ',') expects = open === '{' ? 'key' : 'value';
      else break;
      at++;
    } else if (expects === 'colon') {
      if (char !== ':') break;
      at++;
      expects = 'value';
    } else if ((expects === 'key or }' && char === '}') || (expects === 'value or ]' && char === ']')) {
      stack.pop();
      at++;
      expects = 'comma';
    } else if (expects === 'key' || expects === 'key or }') {
      if (!match(STRING)) break;
      expects = 'colon';
    } else if (char === '{' || char === '[') {
      stack.push(char);
      at++;
      expects = char === '{' ? 'key or }' : 'value or ]';
    } else if (match(STRING) || match(NUMBER) || match(LITERAL)) {
      expects = 'comma';
    } else break;
  }
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  return { line, column: at - before.lastIndexOf('\n'), reason: describe(text, at) };
}

function describe(text: string, at: number): string {
  const char = text[at];
  if (char === undefined) return 'unexpected end';
  if (char === '"') return 'unfinished or invalid string';
  return `unexpected ${JSON.stringify(char)}`;
}
