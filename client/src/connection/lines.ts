// Lines of an answer, as they come.
import type { Bytes } from './transport.ts';

/** Without their ends. A last one that is not whole is not given: more would have come. */
export async function* readLines(bytes: Bytes): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let begun = '';
  for await (const part of bytes) {
    const lines = (begun + decoder.decode(part, { stream: true })).split('\n');
    begun = lines.pop() ?? '';
    yield* lines;
  }
}
