// JSON that a guest has sent. A few bytes of text can be many objects, so they are counted first.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPENING: readonly number[] = [0x5b, 0x7b];
const CLOSING: readonly number[] = [0x5d, 0x7d];
/** What Python writes is never deeper. Deeper values end many programs that walk through them. */
const MAX_DEPTH = 1000;

/** How many values all texts together may have. */
export type Budget = { values: number };

/** Undefined for what is not JSON, too deep, or has more values than are left. */
export function parseGuestJson(text: string, budget: Budget): { readonly value: unknown } | undefined {
  if (!takeValues(text, budget)) return undefined;
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function takeValues(text: string, budget: Budget): boolean {
  let depth = 0;
  budget.values -= 1;
  for (let at = 0; at < text.length && budget.values >= 0; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (CLOSING.includes(code)) depth -= 1;
    else if (OPENING.includes(code)) {
      depth += 1;
      if (depth > MAX_DEPTH) return false;
      budget.values -= 1;
    } else if (code === COMMA) budget.values -= 1;
  }
  return budget.values >= 0;
}

/** Index of the closing quote. */
function endOfString(text: string, start: number): number {
  for (let at = start; ; ) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let first = at;
    while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
    if ((at - first) % 2 === 0) return at;
  }
}
