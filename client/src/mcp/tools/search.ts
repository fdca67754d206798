// Tools that search the files of a sandbox, with the programs that each system has.
import { z } from 'zod';
import { SandboxdError } from '../../errors.ts';
import type { Sandbox } from '../../sandbox.ts';
import { text, toCut, tool, toShownName } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

const MAX_CHARS = 40_000;
const MAX_LINE_CHARS = 300;
const MAX_PROBLEM_CHARS = 1000;
const TIMEOUT_S = 60;

// With a hyphen at its beginning, it would be an option.
const pathIn = z.string().regex(/^\//, 'must be absolute').max(4096);

export const searchText = tool({
  name: 'search_text',
  description:
    'Search files for a regular expression (of grep -E). Answers path:line:text. .git and node_modules are left out, ' +
    'unless the path is one.',
  effect: 'reads',
  input: z.strictObject({
    sandbox: sandboxWord,
    path: pathIn.describe('absolute path of a directory or file'),
    pattern: z.string().min(1).max(1000),
    files: z.string().max(200).optional().describe('only files of this form, such as *.py'),
    ignore_case: z.boolean().default(false),
  }),
  async run({ sandbox, path, pattern, files, ignore_case: ignoresCase }, { scope, signal }) {
    const found = await scope.sandbox(sandbox, { signal });
    // A line break in a name would forge a line.
    const where = [...findIn(path, ['-o', '-path', '*\n*']), '-type', 'f'];
    const only = files === undefined ? [] : ['-name', files];
    const grep = ['grep', '-nIHE', ...(ignoresCase ? ['-i'] : []), '-e', pattern];
    const exec = found.exec([...where, ...only, '-exec', ...grep, '{}', '+'], {
      timeoutS: TIMEOUT_S,
      signal,
    });
    return text(await collect(exec, '\n', (line) => line.replace(/(?!\t)\p{Cc}/gu, '\ufffd')));
  },
});

export const findFiles = tool({
  name: 'find_files',
  description:
    'Find files by their name, such as *.py. .git and node_modules are left out, unless the path is one.',
  effect: 'reads',
  input: z.strictObject({
    sandbox: sandboxWord,
    path: pathIn.describe('absolute path of a directory'),
    name: z.string().min(1).max(255).describe('name with * and ?'),
  }),
  async run({ sandbox, path, name }, { scope, signal }) {
    const found = await scope.sandbox(sandbox, { signal });
    const cmd = [...findIn(path), '!', '-type', 'd', '-name', name, '-print0'];
    return text(await collect(found.exec(cmd, { timeoutS: TIMEOUT_S, signal }), '\0', toShownName));
  },
});

function findIn(path: string, alsoLeftOut: readonly string[] = []): string[] {
  const start = path.replace(/(?<=.)\/+$/, '');
  const itself = start.replace(/[*?[\]\\]/g, '\\$&');
  const leftOut = ['(', '-name', '.git', '-o', '-name', 'node_modules', ...alsoLeftOut, ')'];
  return ['find', start, '-xdev', ...leftOut, '!', '-path', itself, '-prune', '-o'];
}

/** The entries of an output, as far as a model reads them. */
async function collect(
  exec: ReturnType<Sandbox['exec']>,
  separator: string,
  render: (entry: string) => string,
): Promise<string> {
  const decoder = new TextDecoder();
  const entries: string[] = [];
  let chars = 0;
  let rest = '';
  let problems = '';
  const add = (entry: string): void => {
    const shown = toCut(render(entry), MAX_LINE_CHARS);
    chars += shown.length + 1;
    entries.push(shown);
  };
  for await (const { stream, data } of exec) {
    if (stream === 'stderr') {
      problems = (problems + new TextDecoder().decode(data)).slice(0, MAX_PROBLEM_CHARS);
      continue;
    }
    const [first = '', ...more] = decoder.decode(data, { stream: true }).split(separator);
    // An entry may be as long as a file.
    rest = (rest + first).slice(0, 2 * MAX_LINE_CHARS);
    for (const each of more) {
      if (chars > MAX_CHARS) break;
      add(rest);
      rest = each.slice(0, 2 * MAX_LINE_CHARS);
    }
    // Leaving the loop ends the command.
    if (chars > MAX_CHARS) return [...entries, '[more is left out: search more narrowly]'].join('\n');
  }
  if (rest !== '') add(rest);
  // The exit code says little: find ends with 1 if grep found nothing in some of the files.
  const { error, timed_out } = await exec.result();
  if (error !== undefined) throw new SandboxdError(error);
  if (timed_out) entries.push(`[ended after ${TIMEOUT_S} s: search more narrowly]`);
  if (entries.length === 0 && problems !== '') throw new SandboxdError(problems.trim());
  if (problems !== '') entries.push(`[problems: ${problems.trim()}]`);
  return entries.length === 0 ? '[nothing found]' : entries.join('\n');
}
