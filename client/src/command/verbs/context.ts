// `sandbox context`: lists, edits and selects daemons.
import { resolve } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import { findContext, readContexts, toClient, writeContexts } from '../context.ts';
import { readLine } from '../read-line.ts';
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
      const apiKey =
        keyFlag === '-'
          ? (await readLine(terminal, 'the key, which is not shown:')).trim()
          : (keyFlag ?? named?.apiKey);
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
