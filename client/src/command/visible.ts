// Text of others on a terminal: an error, an image, a sandbox may be named so that the terminal would obey it.

/** What moves the cursor, changes the terminal, ends a line, or shows the text in another order than it has. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** One line, in which what cannot be seen is written out. */
export function toVisible(text: string): string {
  return text.replace(UNSEEN, (each) => SHORT[each] ?? toEscape(each));
}

/** JSON that is the same value; between its strings lines may end. */
export function toVisibleJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(UNSEEN, (each) =>
    each === '\n' ? each : toEscape(each),
  );
}

function toEscape(text: string): string {
  return Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
    .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
    .join('');
}
