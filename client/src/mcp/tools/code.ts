// A tool for the code interpreter: what code prints and shows, images as images.
import type { CallToolResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { CodeResult } from '../../code.ts';
import { TimeoutError } from '../../errors.ts';
import { Excerpt } from '../excerpt.ts';
import { failure, tool, toPlain } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

const HEAD_CHARS = 8 * 1024;
const TAIL_CHARS = 24 * 1024;
const MAX_OUTPUT_BYTES = 16 << 20;
const MAX_SOURCE_CHARS = 90_000;
const MAX_RESULT_CHARS = 8 * 1024;
const MAX_RESULTS = 32;
/** As those of read_file, in Base64. */
const MAX_IMAGE_CHARS = 4_900_000;
const MAX_IMAGES = 4;
const BASE64 = /^[A-Za-z0-9+/\n]+={0,2}\n?$/;

export const runCode = tool({
  name: 'run_code',
  description:
    'Run Python in the code interpreter of a sandbox of the profile code, as a cell of a notebook: variables stay for ' +
    'later calls. pandas, numpy and matplotlib are there. The answer has what is printed, the value of the last line, ' +
    'and figures as images.',
  effect: 'deletes',
  input: z.strictObject({
    sandbox: sandboxWord,
    code: z.string().min(1).max(MAX_SOURCE_CHARS),
    context: z.string().max(64).optional().describe('id of a context; default: the one of the sandbox'),
    timeout_s: z.number().int().min(1).max(3600).default(120),
  }),
  async run({ sandbox, code: source, context, timeout_s: timeoutS }, { scope, signal, progress }) {
    const { code } = await scope.sandbox(sandbox, { signal });
    let chars = 0;
    const onStdout = (text: string): void => {
      chars += text.length;
      progress(`${chars} characters of output`);
    };
    try {
      const { stdout, stderr, results, error } = await code.run(source, {
        ...(context !== undefined && { context }),
        ...{ timeoutS, onStdout, maxOutputBytes: MAX_OUTPUT_BYTES, signal },
      });
      const parts = [toExcerpt(stdout)];
      if (stderr !== '') parts.push(`[stderr]\n${toExcerpt(stderr)}`);
      const content: CallToolResult['content'] = [];
      for (const result of results.slice(0, MAX_RESULTS)) parts.push(toText(result));
      if (results.length > MAX_RESULTS) parts.push(`[${results.length - MAX_RESULTS} results were left out]`);
      if (error !== undefined) parts.push(toExcerpt(error.traceback));
      const images = results.flatMap(toImage);
      if (images.length > MAX_IMAGES) parts.push(`[${images.length - MAX_IMAGES} images were left out]`);
      const words = parts.filter((part) => part !== '').join('\n') || '[no output]';
      content.push({ type: 'text', text: words }, ...images.slice(0, MAX_IMAGES));
      return { content, isError: error !== undefined };
    } catch (error) {
      if (error instanceof TimeoutError) return failure(error);
      throw error;
    }
  },
});

function toExcerpt(text: string): string {
  const excerpt = new Excerpt(HEAD_CHARS, TAIL_CHARS);
  excerpt.push(toPlain(text).replace(/\n$/, ''));
  return `${excerpt}`;
}

function toText({ text = '', markdown = text }: CodeResult): string {
  const excerpt = new Excerpt(MAX_RESULT_CHARS / 2, MAX_RESULT_CHARS / 2);
  excerpt.push(toPlain(markdown));
  return `${excerpt}`;
}

function toImage({ png, jpeg }: CodeResult): { type: 'image'; data: string; mimeType: string }[] {
  const data = png ?? jpeg ?? '';
  if (data.length > MAX_IMAGE_CHARS || !BASE64.test(data)) return [];
  const mimeType = png === undefined ? 'image/jpeg' : 'image/png';
  return [{ type: 'image', data: data.replaceAll('\n', ''), mimeType }];
}
