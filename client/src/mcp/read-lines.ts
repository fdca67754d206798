// Parts of texts that are streamed, with bounded memory.
import { SandboxdError } from '../errors.ts';

const MAX_READ_BYTES = 64 * 2 ** 20;

/** The first bytes, and all of them. The caller must read all. */
export async function peek(
  body: AsyncIterable<Uint8Array>,
  count: number,
): Promise<{ readonly beginning: Buffer; readonly all: AsyncIterable<Uint8Array> }> {
  const parts = body[Symbol.asyncIterator]();
  let read = Buffer.alloc(0);
  while (read.length < count) {
    const { value, done } = await parts.next();
    if (done) break;
    read = Buffer.concat([read, value]);
  }
  async function* all(): AsyncGenerator<Uint8Array, void> {
    try {
      yield read;
      for (let next = await parts.next(); !next.done; next = await parts.next()) yield next.value;
    } finally {
      await parts.return?.();
    }
  }
  return { beginning: read.subarray(0, count), all: all() };
}

/** Some lines of a text, and where the rest begins; undefined for what is not text. */
export async function readLines(
  body: AsyncIterable<Uint8Array>,
  options: {
    readonly firstLine: number;
    /** Characters of the first line that are left out. */
    readonly firstCharacter: number;
    readonly lines: number;
    readonly maxChars: number;
  },
): Promise<{ readonly text: string; readonly next: string | undefined } | undefined> {
  const { firstLine, firstCharacter, lines, maxChars } = options;
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let text = '';
  let bytes = 0;
  let line = 1;
  /** Characters of the current line. */
  let column = 0;
  for await (const part of body) {
    bytes += part.length;
    if (bytes > MAX_READ_BYTES)
      throw new SandboxdError('the file is too long to be read so far: use a command');
    if (part.includes(0)) return undefined;
    for (const [at, piece] of decoder.decode(part, { stream: true }).split('\n').entries()) {
      if (at > 0) {
        line += 1;
        column = 0;
        if (line > firstLine && line < firstLine + lines) text += '\n';
      }
      if (line >= firstLine + lines) return { text, next: `first_line ${line}` };
      const skipped = line === firstLine ? Math.max(0, firstCharacter - column) : 0;
      const shown = line < firstLine ? '' : toWhole(piece.slice(skipped), maxChars - text.length);
      text += shown;
      if (line >= firstLine && skipped + shown.length < piece.length) {
        const character = column + skipped + shown.length;
        return { text, next: `first_line ${line}, first_character ${character}` };
      }
      column += piece.length;
    }
  }
  // The end of the last line is not a line of its own.
  return { text: text.replace(/\n$/, ''), next: undefined };
}

/** At most so many characters, and no half of one. */
function toWhole(words: string, maxChars: number): string {
  if (words.length <= maxChars) return words;
  return words.slice(0, Math.max(0, maxChars)).replace(/[\ud800-\udbff]$/, '');
}
