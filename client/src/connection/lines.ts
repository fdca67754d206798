// Lines of an answer, as they come.
import { SandboxdError } from '../errors.ts';
import type { Bytes } from './transport.ts';

/** Longest one: the largest answer of an exec as JSON has 32 MiB of output, and as much again for what is escaped. */
const MAX_LINE_CHARS = 64 << 20;

/** Without their ends. A last one that is not whole is not given: more would have come. SandboxdError for one without end. */
export async function* readLines(bytes: Bytes, maxChars = MAX_LINE_CHARS): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let begun: string[] = [];
  let chars = 0;
  for await (const part of bytes) {
    const [first = '', ...more] = decoder.decode(part, { stream: true }).split('\n');
    begun.push(first);
    chars += first.length;
    if (chars > maxChars)
      throw new SandboxdError(
        `a line of the answer has more than ${maxChars} characters; is it a sandboxd that listens there?`,
      );
    const last = more.pop();
    if (last === undefined) continue;
    yield begun.join('');
    yield* more;
    begun = [last];
    chars = last.length;
  }
}
