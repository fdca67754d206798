// How many columns of a terminal a text takes: two for CJK and most emoji, none for an accent that is combined.
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';

/** Node knows it, but tells only where the cursor of a prompt would be. */
const ruler = createInterface({ input: new PassThrough() });
const letters = new Intl.Segmenter();

/** Of one line without control characters. */
export function widthOf(text: string): number {
  ruler.setPrompt(text);
  return ruler.getCursorPos().cols;
}

/** As much of its beginning as fits. */
export function startOf(text: string, columns: number): string {
  return take(split(text), columns).join('');
}

/** All of it, or as much of its end as fits, which says more than the beginning. */
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
