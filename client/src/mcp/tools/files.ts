// Tools for the files of a sandbox.
import { z } from 'zod';
import type { FileEntry } from '../../contract.ts';
import { PreconditionError, SandboxdError } from '../../errors.ts';
import type { Sandbox } from '../../sandbox.ts';
import { text, tool } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

const MAX_LINES = 2000;
const MAX_READ_BYTES = 64 * 2 ** 20;
const MAX_READ_CHARS = 128 * 1024;
const MAX_EDIT_BYTES = 8 * 2 ** 20;
const MAX_IMAGE_BYTES = 4 * 2 ** 20;
const MAX_WRITE_CHARS = 4 * 2 ** 20;
const MAX_ENTRIES = 1000;
const MAX_FOUND_CHARS = 64 * 1024;
const SEARCH_TIMEOUT_S = 60;
/** Types that models can see, by the first bytes of a file. */
const IMAGES: readonly (readonly [string, string])[] = [
  ['89504e470d0a1a0a', 'image/png'],
  ['ffd8ff', 'image/jpeg'],
  ['47494638', 'image/gif'],
];
const SNIFFED_BYTES = 16;

const pathIn = z.string().min(1).max(4096).describe('absolute path in the sandbox');

export const readFile = tool({
  name: 'read_file',
  description: `Read a text file, or look at an image (PNG, JPEG, GIF, WebP). A long file is read in parts of at most ${MAX_LINES} lines.`,
  effect: 'reads',
  input: z.object({
    sandbox: sandboxWord,
    path: pathIn,
    first_line: z.number().int().min(1).default(1),
    lines: z.number().int().min(1).max(MAX_LINES).default(MAX_LINES),
  }),
  async run({ sandbox, path, first_line: firstLine, lines }, { scope, signal }) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const beginning = await readBytes(
      await files.content(path, { last: MAX_IMAGE_BYTES, signal }),
      SNIFFED_BYTES,
    );
    const mimeType = imageType(beginning);
    if (mimeType !== undefined) {
      const bytes = await readBytes(await files.content(path, { signal }), MAX_IMAGE_BYTES);
      return { content: [{ type: 'image', data: bytes.toString('base64'), mimeType }] };
    }
    const part = await readLines(await files.content(path, { signal }), firstLine, lines);
    if (part === undefined) throw new SandboxdError(`${path} is no text; download_file copies it`);
    const note = part.hasMore ? `\n[more lines follow from line ${firstLine + part.lines.length} on]` : '';
    return text(part.lines.join('\n') + note);
  },
});

export const writeFile = tool({
  name: 'write_file',
  description: 'Write a text file; missing directories are made. Use edit_file to change a part of one.',
  effect: 'deletes',
  input: z.object({
    sandbox: sandboxWord,
    path: pathIn,
    content: z.string().max(MAX_WRITE_CHARS),
    is_new: z.boolean().default(false).describe('refuse if the file exists'),
    executable: z.boolean().default(false),
  }),
  async run({ sandbox, path, content, is_new: isNew, executable }, { scope, signal }) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const entry = await files.replace(path, content, {
      ...(isNew && { ifNoneMatch: '*' }),
      ...(executable && { mode: 0o755 }),
      signal,
    });
    return text(`wrote ${entry.size_bytes} bytes to ${entry.path}`);
  },
});

export const editFile = tool({
  name: 'edit_file',
  description:
    'Replace a text in a file by another one, exactly. The old text must be in the file once; else give more of what is ' +
    'around it, or replace all.',
  effect: 'deletes',
  input: z.object({
    sandbox: sandboxWord,
    path: pathIn,
    old_text: z.string().min(1).max(MAX_WRITE_CHARS),
    new_text: z.string().max(MAX_WRITE_CHARS),
    replace_all: z.boolean().default(false),
  }),
  async run({ sandbox, path, old_text: oldText, new_text: newText, replace_all: isAll }, { scope, signal }) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const body = await files.content(path, { signal });
    const { etag } = body;
    if (etag === undefined) throw new SandboxdError(`${path} has no ETag: it cannot be edited safely`);
    const bytes = await readBytes(body, MAX_EDIT_BYTES);
    if (bytes.length > MAX_EDIT_BYTES)
      throw new SandboxdError(`${path} is too long to be edited: use a command`);
    const before = decode(bytes);
    if (before === undefined) throw new SandboxdError(`${path} is no text`);
    const count = before.split(oldText).length - 1;
    if (count === 0) throw new SandboxdError(`old_text is not in ${path}; read_file shows what is`);
    if (count > 1 && !isAll)
      throw new SandboxdError(
        `old_text is in ${path} ${count} times: give more of its surroundings, or replace_all`,
      );
    try {
      await files.replace(path, before.split(oldText).join(newText), { ifMatch: etag, signal });
    } catch (error) {
      if (!(error instanceof PreconditionError)) throw error;
      throw new SandboxdError(`${path} was changed meanwhile, and is as it was: read it again`, {
        cause: error,
      });
    }
    return text(`replaced ${count === 1 ? 'it once' : `it ${count} times`} in ${path}`);
  },
});

export const listDirectory = tool({
  name: 'list_directory',
  description: 'List the entries of a directory, with their sizes.',
  effect: 'reads',
  input: z.object({
    sandbox: sandboxWord,
    path: pathIn,
    depth: z.number().int().min(1).max(20).default(1).describe('levels of directories'),
  }),
  async run({ sandbox, path, depth }, { scope, signal }) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const lines: string[] = [];
    for await (const entry of files.list(path, { depth, signal })) {
      if (lines.length === MAX_ENTRIES) {
        lines.push(`[more than ${MAX_ENTRIES} entries]`);
        break;
      }
      lines.push(render(entry));
    }
    return text(lines.length === 0 ? '[empty]' : lines.join('\n'));
  },
});

export const searchText = tool({
  name: 'search_text',
  description: 'Search files for a regular expression (of grep -E). Answers path:line:text.',
  effect: 'reads',
  input: z.object({
    sandbox: sandboxWord,
    path: pathIn.describe('absolute path of a directory or file'),
    pattern: z.string().min(1).max(1000),
    files: z.string().max(200).optional().describe('only files of this form, such as *.py'),
    ignore_case: z.boolean().default(false),
  }),
  async run({ sandbox, path, pattern, files, ignore_case: ignoresCase }, { scope, signal }) {
    const flags = [...(ignoresCase ? ['-i'] : []), ...(files === undefined ? [] : [`--include=${files}`])];
    const found = await scope.sandbox(sandbox, { signal });
    // grep ends with 1 if there is nothing.
    return text(await search(found, ['grep', '-rnIE', ...flags, '-e', pattern, '--', path], [0, 1], signal));
  },
});

export const findFiles = tool({
  name: 'find_files',
  description: 'Find files by their name, such as *.py.',
  effect: 'reads',
  input: z.object({
    sandbox: sandboxWord,
    path: pathIn.describe('absolute path of a directory'),
    name: z.string().min(1).max(255).describe('name with * and ?'),
  }),
  async run({ sandbox, path, name }, { scope, signal }) {
    // A path that begins with a hyphen would be an option.
    if (!path.startsWith('/')) throw new SandboxdError('the path must be absolute');
    const found = await scope.sandbox(sandbox, { signal });
    return text(await search(found, ['find', path, '-xdev', '-name', name], [0, 1], signal));
  },
});

/** The output of a program that searches, as far as a model reads it. */
async function search(
  sandbox: Sandbox,
  cmd: readonly string[],
  codes: readonly number[],
  signal: AbortSignal,
): Promise<string> {
  const exec = sandbox.exec(cmd, { timeoutS: SEARCH_TIMEOUT_S, signal });
  const decoder = new TextDecoder();
  let output = '';
  let problems = '';
  for await (const { stream, data } of exec) {
    if (stream === 'stderr') problems = (problems + new TextDecoder().decode(data)).slice(0, 1000);
    else output += decoder.decode(data, { stream: true });
    // Leaving the loop ends the command.
    if (output.length > MAX_FOUND_CHARS)
      return `${output.slice(0, MAX_FOUND_CHARS)}\n[more is left out: search more narrowly]`;
  }
  const { exit_code, error, timed_out } = await exec.result();
  if (error !== undefined) throw new SandboxdError(error);
  if (timed_out) return `${output}[ended after ${SEARCH_TIMEOUT_S} s: search more narrowly]`;
  if (!codes.includes(exit_code)) throw new SandboxdError(problems || `${cmd[0]} ended with ${exit_code}`);
  return (
    output.replace(/\n$/, '') || (problems === '' ? '[nothing found]' : `[nothing found; ${problems.trim()}]`)
  );
}

function render({ type, path, size_bytes, target }: FileEntry): string {
  if (type === 'directory') return `${path}/`;
  if (type === 'symlink') return `${path} -> ${target ?? '?'}`;
  return type === 'file' ? `${path}  ${size_bytes} bytes` : `${path}  ${type}`;
}

function imageType(bytes: Buffer): string | undefined {
  const hex = bytes.toString('hex');
  if (/^52494646.{8}57454250/.test(hex)) return 'image/webp';
  return IMAGES.find(([magic]) => hex.startsWith(magic))?.[1];
}

/** The first bytes, at most one more than `maxBytes`. */
async function readBytes(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body) {
    parts.push(part);
    size += part.length;
    if (size > maxBytes) break;
  }
  return Buffer.concat(parts).subarray(0, maxBytes + 1);
}

/** Undefined for bytes that are no text. */
function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Some lines of a text, without its other lines in memory; undefined for what is no text. */
async function readLines(
  body: AsyncIterable<Uint8Array>,
  firstLine: number,
  count: number,
): Promise<{ readonly lines: string[]; readonly hasMore: boolean } | undefined> {
  const decoder = new TextDecoder();
  const lines: string[] = [];
  let number = 1;
  let line = '';
  let chars = 0;
  let bytes = 0;
  for await (const part of body) {
    bytes += part.length;
    if (part.includes(0)) return undefined;
    const texts = decoder.decode(part, { stream: true }).split('\n');
    for (const [at, each] of texts.entries()) {
      if (at > 0) {
        if (number >= firstLine) lines.push(line);
        number += 1;
        line = '';
      }
      if (number >= firstLine + count) return { lines, hasMore: true };
      if (number < firstLine) continue;
      line += each;
      chars += each.length;
      if (chars > MAX_READ_CHARS) return { lines: [...lines, `${line.slice(0, 2000)}[cut]`], hasMore: true };
    }
    if (bytes > MAX_READ_BYTES)
      throw new SandboxdError('the file is too long to be read so far: use a command');
  }
  if (number >= firstLine && line !== '') lines.push(line);
  return { lines, hasMore: false };
}
