// `sandbox logs`: the durable log.
import type { LogOptions } from '../../logs.ts';
import type { Verb } from '../verb.ts';

const SOURCES = ['service', 'exec', 'all'] as const;

export const logs: Verb = {
  name: 'logs',
  operands: '<sandbox>',
  completes: ['sandbox'],
  summary: 'Show what a sandbox said, also one that is gone',
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'go on as it says more' },
    source: {
      type: 'string',
      placeholder: 'which',
      values: SOURCES,
      help: 'service, exec or all; all by default',
    },
    all: { type: 'boolean', help: 'from the beginning; the last 64 KiB by default' },
  },
  count: [1, 1],
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
