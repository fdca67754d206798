// Display width of a text in terminal columns: two for CJK and most emoji, zero for combining accents.
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';

/** Node computes widths but exposes them only as the cursor position of a prompt. */
const ruler = createInterface({ input: new PassThrough() });
const letters = new Intl.Segmenter();

/** Width of one line without control characters. */
export function widthOf(text: string): number {
  ruler.setPrompt(text);
  return ruler.getCursorPos().cols;
}

/** The beginning of the text, up to `columns`. */
export function startOf(text: string, columns: number): string {
  return take(split(text), columns).join('');
}

/** The whole text, or its end with an ellipsis: the end of a path says more than its beginning. */
export function endOf(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  return columns < 2
    ? ''
    : `…${take(split(text).reverse(), columns - 1)
        .reverse()
        .join('')}`;
}

function split(text: string): string[] {
  return Array.from(letters.segment(text), ({ segment }) => segment);
}

function take(parts: readonly string[], columns: number): string[] {
  let left = columns;
  const end = parts.findIndex((part) => {
    left -= widthOf(part);
    return left < 0;
  });
  return parts.slice(0, end < 0 ? parts.length : end);
}
