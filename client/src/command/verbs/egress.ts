// `sandbox egress`: what the guest of a sandbox reached, and what it was denied.
import type { EgressRecord } from '../../contract.ts';
import type { Verb } from '../verb.ts';
import { toVisible } from '../visible.ts';

export const egress: Verb = {
  name: 'egress',
  operands: '<sandbox>',
  completes: ['sandbox'],
  summary: 'Show what a sandbox reached in networks, and what it was denied',
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'follow new records' },
    denied: { type: 'boolean', help: 'only what was denied' },
    all: { type: 'boolean', help: 'show the whole log; default: the last 64 KiB' },
  },
  example: 'sandbox egress --denied $ID',
  async run({ operands: [id = ''], isSet }, { client, terminal, signal, isJson }) {
    const options = {
      follow: isSet('follow'),
      signal,
      ...(isSet('denied') && { verdict: 'denied' as const }),
      ...(isSet('all') && { since: 0 }),
    };
    for await (const record of client.sandboxes.get(id).network.egress(options)) {
      if (isJson) await terminal.writeJson(record);
      else await terminal.write(`${toVisible(show(record))}\n`, 'stdout');
    }
    return 0;
  },
};

/** `2026-03-14T15:09:26.535Z allowed tcp github.com 203.0.113.9:22 up 517 down 4096 120ms: its rule …`. */
function show({ at, verdict, protocol, name, address, port, reason, ...rest }: EgressRecord): string {
  const target = address === undefined ? undefined : `${address}${port === undefined ? '' : `:${port}`}`;
  const bytes = [
    ['up', rest.bytes_up],
    ['down', rest.bytes_down],
  ].flatMap(([word, count]) => (count === undefined ? [] : [`${word} ${count}`]));
  const parts = [
    at,
    verdict,
    protocol,
    name,
    target,
    rest.method,
    rest.path,
    rest.status === undefined ? undefined : String(rest.status),
    ...bytes,
    rest.ms === undefined ? undefined : `${rest.ms}ms`,
  ];
  return `${parts.filter((part) => part !== undefined).join(' ')}: ${reason}${rest.rule === undefined ? '' : ` (${rest.rule})`}`;
}
