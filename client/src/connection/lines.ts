// Reads the lines of a streamed answer.
import { SandboxdError } from '../errors.ts';
import type { Bytes } from './transport.ts';

/** Line limit: the largest JSON answer of an exec has 32 MiB of output, and as much again for escapes. */
const MAX_LINE_CHARS = 64 << 20;

/**
 * Yields lines without their terminators. Drops an incomplete last line, because the connection broke within it.
 * SandboxdError for a line above the limit.
 */
export async function* readLines(bytes: Bytes, maxChars = MAX_LINE_CHARS): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let partial: string[] = [];
  let chars = 0;
  for await (const part of bytes) {
    const [first = '', ...more] = decoder.decode(part, { stream: true }).split('\n');
    partial.push(first);
    chars += first.length;
    if (chars > maxChars)
      throw new SandboxdError(
        `a line of the answer has more than ${maxChars} characters; is it a sandboxd that listens there?`,
      );
    const last = more.pop();
    if (last === undefined) continue;
    yield partial.join('');
    yield* more;
    partial = [last];
    chars = last.length;
  }
}
