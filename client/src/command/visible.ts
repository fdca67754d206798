// Escapes untrusted text for a terminal: names and errors could contain control sequences.

/** Characters that move the cursor, change the terminal, end a line or reorder the text. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** One line with all such characters escaped. */
export function toVisible(text: string): string {
  return text.replace(UNSAFE, (each) => SHORT[each] ?? toEscape(each));
}

/** JSON with the same value; only newlines between its tokens remain. */
export function toVisibleJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(UNSAFE, (each) =>
    each === '\n' ? each : toEscape(each),
  );
}

function toEscape(text: string): string {
  return Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
    .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
    .join('');
}
