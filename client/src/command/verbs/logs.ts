// `sandbox logs`: the stored log of a sandbox.
import type { LogOptions } from '../../logs.ts';
import type { Verb } from '../verb.ts';

const SOURCES = ['service', 'exec', 'all'] as const;

export const logs: Verb = {
  name: 'logs',
  operands: '<sandbox>',
  completes: ['sandbox'],
  summary: 'Show the log of a sandbox, even a deleted one',
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'follow new output' },
    source: {
      type: 'string',
      placeholder: 'which',
      values: SOURCES,
      help: 'service, exec or all; default: all',
    },
    all: { type: 'boolean', help: 'show the whole log; default: the last 64 KiB' },
  },
  example: 'sandbox logs --source exec $ID',
  async run({ operands: [id = ''], text, isSet }, { client, terminal, signal, isJson }) {
    const source = (text('source') ?? 'all') as NonNullable<LogOptions['source']>;
    const options = { source, follow: isSet('follow'), signal, ...(isSet('all') && { since: 0 }) };
    for await (const record of client.sandboxes.logs(id, options)) {
      if (isJson) await terminal.writeJson(record);
      else if (record.stream !== 'event') await terminal.write(record.text, record.stream);
    }
    return 0;
  },
};
