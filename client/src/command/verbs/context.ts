// `sandbox context`: lists, edits and selects daemons.
import { resolve } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import { SandboxdError } from '../../errors.ts';
import { findContext, readContexts, toClient, writeContexts } from '../context.ts';
import type { Terminal } from '../terminal.ts';
import type { Verb } from '../verb.ts';

const ACTIONS = ['list', 'set', 'use', 'rm'] as const;

export const context: Verb = {
  name: 'context',
  operands: `[${ACTIONS.join('|')}] [name]`,
  completes: [ACTIONS, 'context'],
  summary: 'Manage contexts: address, key and certificate of a daemon',
  details:
    'Contexts are stored in ~/.config/sandbox/contexts.json, which only you can read. SANDBOXD_HOST, SANDBOXD_API_KEY and SANDBOXD_CA override them. Pass a key on standard input, because other users of the machine can read command lines.',
  flags: {
    key: {
      type: 'string',
      placeholder: 'key',
      completes: ['-'],
      help: 'with set: the key; - reads it from standard input without echo',
    },
  },
  example: 'sandbox context set lab --host https://sandboxd.example:7878 --key - --ca ca.pem',
  async run({ operands: [action = 'list', name], text }, { terminal, isJson }) {
    const known = readContexts();
    const { current, contexts } = known;
    const rest = Object.fromEntries(Object.entries(contexts).filter(([each]) => each !== name));
    if (action === 'list') {
      const rows = Object.entries(contexts).map(([each, { host, apiKey, ca = '' }]) => [
        each === current ? `* ${each}` : `  ${each}`,
        host,
        apiKey === undefined ? 'none' : 'set',
        ca,
      ]);
      if (isJson) terminal.printJson({ current, contexts: Object.keys(contexts) });
      else terminal.table(['  NAME', 'HOST', 'KEY', 'CA'], rows);
      return 0;
    }
    if (!(ACTIONS as readonly string[]).includes(action))
      throw new UsageError(`there is no ${JSON.stringify(action)}; known are ${ACTIONS.join(', ')}`);
    if (name === undefined) throw new UsageError(`an argument is missing: sandbox context ${action} <name>`);
    const named = findContext(known, name);
    if (action === 'set') {
      const host = text('host') ?? named?.host;
      if (host === undefined) throw new UsageError('a flag is missing: --host <url>');
      const keyFlag = text('key');
      const apiKey = keyFlag === '-' ? await readKey(terminal) : (keyFlag ?? named?.apiKey);
      const ca = text('ca') === undefined ? named?.ca : resolve(text('ca') ?? '');
      const entry = { host, ...(apiKey && { apiKey }), ...(ca !== undefined && { ca }) };
      // Reports an unusable address or certificate now rather than in the next verb.
      toClient(entry);
      await writeContexts({ current: current ?? name, contexts: { ...rest, [name]: entry } });
    } else if (named === undefined) {
      throw new UsageError(`there is no context ${JSON.stringify(name)}; \`sandbox context\` lists them`);
    } else if (action === 'use') await writeContexts({ current: name, contexts });
    else await writeContexts({ ...(current !== name && current && { current }), contexts: rest });
    if (isJson) terminal.printJson({ [action]: name });
    return 0;
  },
};

/** Ctrl-C and Ctrl-D, which a terminal in raw mode passes as characters. */
const INTERRUPTS = ['\x03', '\x04'];

/** Reads one line without echo. */
async function readKey(terminal: Terminal): Promise<string> {
  const { stdin } = terminal;
  if (stdin.isTTY) {
    // Before the prompt, because input that is typed or pasted at once would be echoed.
    stdin.setRawMode(true);
    terminal.note('the key, which is not shown:');
  }
  let text = '';
  try {
    for await (const bytes of stdin) {
      text += String(bytes);
      if (stdin.isTTY && INTERRUPTS.some((each) => text.includes(each)))
        throw new SandboxdError('no key was given');
      if (/[\r\n]/.test(text)) break;
    }
  } finally {
    if (stdin.isTTY) stdin.setRawMode(false);
  }
  const [line = ''] = text.split(/[\r\n]/, 1);
  // The backspace key.
  let kept = '';
  for (const letter of line) kept = letter === '\x7f' ? kept.slice(0, -1) : kept + letter;
  return kept.trim();
}
