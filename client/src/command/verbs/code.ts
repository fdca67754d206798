// `sandbox code`: runs Python in the code interpreter of a sandbox.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { UsageError } from '@sandboxd/api/command-line';
import type { CodeOptions, CodeResult } from '../../code.ts';
import { TimeoutError } from '../../errors.ts';
import type { Terminal } from '../terminal.ts';
import { toEnvironment, toSeconds } from '../units.ts';
import type { Verb } from '../verb.ts';

const TIMED_OUT = 124;
const LANGUAGES: Readonly<Record<string, string>> = { '.py': 'python' };
/** Formats that are saved, and whether they are Base64. */
const IMAGES = { png: true, jpeg: true, pdf: true, svg: false } as const;

export const code: Verb = {
  name: 'code',
  operands: '<sandbox> <file>',
  completes: ['sandbox', 'path'],
  summary: 'Run Python in a sandbox of the profile code',
  details:
    'The file is one cell: its variables stay for later ones. - is standard input. What it prints is printed, and so is the value of its last line; images need --output. The exit code is 1 after an exception, and 124 after a timeout.',
  flags: {
    'code-context': {
      type: 'string',
      placeholder: 'id',
      help: 'context to run it in; default: the one that every sandbox has',
    },
    env: {
      type: 'string',
      short: 'e',
      multiple: true,
      placeholder: 'name=value',
      help: 'set an environment variable, for this cell only',
    },
    timeout: {
      type: 'string',
      placeholder: 'time',
      help: 'interrupt it after this time, such as 30s or 10m',
    },
    output: {
      type: 'string',
      short: 'o',
      placeholder: 'directory',
      help: 'save images as result-1.png and so on in this directory',
      completes: 'path',
    },
  },
  example: 'echo "import sys; sys.version" | sandbox code $ID -',
  async run(input, session) {
    const { client, terminal, signal, isJson, complain } = session;
    const [id = '', path = ''] = input.operands;
    const [context, timeout, output] = ['code-context', 'timeout', 'output'].map(input.text);
    const env = toEnvironment(input.texts('env'));
    const language = LANGUAGES[extname(path)];
    const source = path === '-' ? await readText(terminal.stdin) : await readSource(path);
    const options = {
      ...(context === undefined ? language !== undefined && { language } : { context }),
      ...(timeout !== undefined && { timeoutS: toSeconds('timeout', timeout) }),
      ...(Object.keys(env).length > 0 && { env }),
      signal,
    };
    const { code } = client.sandboxes.get(id);
    try {
      const execution = await code.run(source, isJson ? options : { ...options, ...printing(terminal) });
      const { results, error } = execution;
      const saved = output === undefined ? [] : await saveImages(results, output);
      if (isJson) terminal.printJson({ ...execution, saved });
      for (const name of isJson ? [] : saved) terminal.note(`saved ${name}`);
      for (const line of isJson ? [] : (error?.traceback.split('\n') ?? [])) terminal.debug(line);
      return error === undefined ? 0 : 1;
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      complain(error.message);
      return TIMED_OUT;
    }
  },
};

function printing(terminal: Terminal): Pick<CodeOptions, 'onStdout' | 'onStderr' | 'onResult'> {
  return {
    onStdout: (text) => void terminal.stdout.write(text),
    onStderr: (text) => void terminal.stderr.write(text),
    onResult({ text, markdown = text }) {
      for (const line of markdown?.split('\n') ?? []) terminal.print(line);
    },
  };
}

async function readSource(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new UsageError(`cannot read ${path}: ${(cause as Error).message}`);
  }
}

/** Names are ours: a guest chooses only the content. */
async function saveImages(results: readonly CodeResult[], directory: string): Promise<readonly string[]> {
  const saved: string[] = [];
  await mkdir(directory, { recursive: true });
  for (const [at, result] of results.entries())
    for (const [format, isBase64] of Object.entries(IMAGES)) {
      const content = result[format as keyof typeof IMAGES];
      if (content === undefined) continue;
      const path = join(directory, `result-${at + 1}.${format}`);
      await writeFile(path, content, isBase64 ? 'base64' : 'utf8');
      saved.push(path);
    }
  return saved;
}
