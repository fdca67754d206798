// `sandbox context`: which daemons there are, and which one is meant.
import { resolve } from 'node:path';
import { findContext, readContexts, toClient, writeContexts } from '../context.ts';
import { UsageError, type Verb } from '../verb.ts';

const ACTIONS = ['list', 'set', 'use', 'rm'] as const;

export const context: Verb = {
  name: 'context',
  operands: `[${ACTIONS.join('|')}] [name]`,
  completes: [ACTIONS, 'context'],
  summary: 'Say which daemon is meant: its address, key and certificate',
  details:
    'They are kept in ~/.config/sandbox/contexts.json, which only you can read. SANDBOXD_HOST, SANDBOXD_API_KEY and SANDBOXD_CA win over it. A key is given on standard input: what stands on a command line is seen by every user of the machine.',
  flags: {
    key: {
      type: 'string',
      placeholder: 'key',
      completes: ['-'],
      help: 'with set: the key; - reads it from standard input',
    },
  },
  count: [0, 2],
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
      throw new UsageError(`there is no ${JSON.stringify(action)}; say one of ${ACTIONS.join(', ')}`);
    if (name === undefined) throw new UsageError(`something is missing: sandbox context ${action} <name>`);
    const named = findContext(known, name);
    if (action === 'set') {
      const host = text('host') ?? named?.host;
      if (host === undefined) throw new UsageError('something is missing: --host <url>');
      const given = text('key');
      const apiKey = given === '-' ? await readLine(terminal.stdin) : (given ?? named?.apiKey);
      const ca = text('ca') === undefined ? named?.ca : resolve(text('ca') ?? '');
      const entry = { host, ...(apiKey && { apiKey }), ...(ca !== undefined && { ca }) };
      // What cannot be used is said now, and not by the next verb.
      toClient(entry);
      writeContexts({ current: current ?? name, contexts: { ...rest, [name]: entry } });
    } else if (named === undefined) {
      throw new UsageError(`there is no context ${JSON.stringify(name)}; \`sandbox context\` lists them`);
    } else if (action === 'use') writeContexts({ current: name, contexts });
    else writeContexts({ ...(current !== name && current && { current }), contexts: rest });
    if (isJson) terminal.printJson({ [action]: name });
    return 0;
  },
};

async function readLine(stdin: AsyncIterable<Buffer>): Promise<string> {
  let text = '';
  for await (const bytes of stdin) {
    text += bytes.toString();
    if (text.includes('\n')) break;
  }
  return text.split('\n', 1)[0]?.trim() ?? '';
}
