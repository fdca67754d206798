// Tools for the files of a sandbox.
import { z } from 'zod';
import type { FileEntry } from '../../contract.ts';
import { PreconditionError, SandboxdError } from '../../errors.ts';
import { peek, readLines } from '../read-lines.ts';
import { text, tool, toShownName } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

const MAX_LINES = 2000;
const MAX_READ_CHARS = 40_000;
const MAX_EDIT_BYTES = 8 * 2 ** 20;
/** Models take images up to 5 MB of base64. */
const MAX_IMAGE_BYTES = 3.5 * 2 ** 20;
/** JSON may make six bytes of a character, and a message has a limit. */
const MAX_WRITE_CHARS = 2 ** 20;
/** Types that models can see, by the first bytes of a file as hexadecimal digits. Texts have no NUL. */
const IMAGES: readonly (readonly [RegExp, string])[] = [
  [/^89504e470d0a1a0a0000000d49484452/, 'image/png'],
  [/^ffd8ff[c-f]/, 'image/jpeg'],
  [/^474946383[79]61(?:..)*?00/, 'image/gif'],
  [/^52494646.{8}57454250565038(?:20|4c|58)/, 'image/webp'],
];
const SNIFFED_BYTES = 16;

const pathIn = z.string().min(1).max(4096).describe('absolute path in the sandbox');

export const readFile = tool({
  name: 'read_file',
  description: `Read a text file, or look at an image (PNG, JPEG, GIF, WebP). A long file is read in parts of at most ${MAX_LINES} lines.`,
  effect: 'reads',
  input: z.strictObject({
    sandbox: sandboxWord,
    path: pathIn,
    first_line: z.number().int().min(1).default(1),
    first_character: z.number().int().min(0).default(0).describe('characters of the first line to leave out'),
    lines: z.number().int().min(1).max(MAX_LINES).default(MAX_LINES),
  }),
  async run(
    { sandbox, path, first_line: firstLine, first_character: firstCharacter, lines },
    { scope, signal },
  ) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const body = await files.content(path, { signal });
    const { beginning, all } = await peek(body, SNIFFED_BYTES);
    const hex = beginning.toString('hex');
    const mimeType = IMAGES.find(([form]) => form.test(hex))?.[1];
    if (mimeType !== undefined) {
      const bytes = await readBytes(all, MAX_IMAGE_BYTES);
      if (bytes.length > MAX_IMAGE_BYTES)
        throw new SandboxdError(
          `the image has more than ${MAX_IMAGE_BYTES} bytes: make a smaller one with a command`,
        );
      return { content: [{ type: 'image', data: bytes.toString('base64'), mimeType }] };
    }
    const part = await readLines(all, { firstLine, firstCharacter, lines, maxChars: MAX_READ_CHARS });
    if (part === undefined) throw new SandboxdError(`${path} is not text; download_file copies it`);
    const notes = [
      ...(beginning.length === 0 ? ['[empty]'] : []),
      ...(part.text.includes('\ufffd')
        ? ['[\ufffd is in the file, or stands for bytes that are not UTF-8]']
        : []),
      ...(part.next === undefined ? [] : [`[more follows: ${part.next}]`]),
    ];
    return text([...(part.text === '' && notes.length > 0 ? [] : [part.text]), ...notes].join('\n'));
  },
});

export const writeFile = tool({
  name: 'write_file',
  description: 'Write a text file; missing directories are made. Use edit_file to change a part of one.',
  effect: 'deletes',
  input: z.strictObject({
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
  input: z.strictObject({
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
    if (before === undefined) throw new SandboxdError(`${path} is not text`);
    const count = countOf(before, oldText);
    if (count === 0) throw new SandboxdError(`old_text is not in ${path}; read_file shows what is`);
    if (count > 1 && !isAll)
      throw new SandboxdError(
        `old_text is in ${path} ${count} times: give more of its surroundings, or replace_all`,
      );
    if (before.length + count * (newText.length - oldText.length) > MAX_EDIT_BYTES)
      throw new SandboxdError(`${path} would be too long: use a command`);
    try {
      const after = before.replaceAll(oldText, () => newText);
      await files.replace(path, after, { ifMatch: etag, signal });
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
  input: z.strictObject({
    sandbox: sandboxWord,
    path: pathIn,
    depth: z.number().int().min(1).max(20).default(1).describe('levels of directories'),
  }),
  async run({ sandbox, path, depth }, { scope, signal }) {
    const { files } = await scope.sandbox(sandbox, { signal });
    const lines: string[] = [];
    let chars = 0;
    for await (const entry of files.list(path, { depth, signal })) {
      const line = render(entry);
      chars += line.length + 1;
      if (chars > MAX_READ_CHARS) {
        lines.push(`[more than ${lines.length} entries: list fewer levels, or a directory in it]`);
        break;
      }
      lines.push(line);
    }
    return text(lines.length === 0 ? '[empty]' : lines.join('\n'));
  },
});

function render({ type, path, size_bytes, target }: FileEntry): string {
  if (type === 'directory') return `${toShownName(path)}/`;
  if (type === 'symlink') return `${toShownName(path)} -> ${toShownName(target ?? '?')}`;
  return type === 'file' ? `${toShownName(path)}  ${size_bytes} bytes` : `${toShownName(path)}  ${type}`;
}

function countOf(words: string, part: string): number {
  let count = 0;
  for (let at = words.indexOf(part); at >= 0; at = words.indexOf(part, at + part.length)) count += 1;
  return count;
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

/** Undefined for bytes that are not text. */
function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
