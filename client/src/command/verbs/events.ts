// `sandbox events`: lifecycle events.

import { UsageError } from '@sandboxd/api/command-line';
import type { SandboxEvent } from '../../contract.ts';
import type { Verb } from '../verb.ts';
import { toVisible } from '../visible.ts';

/** An object, so that the type check finds a missing kind. */
const KINDS = Object.keys({
  created: true,
  forked: true,
  adopted: true,
  updated: true,
  died: true,
  hung: true,
  recovered: true,
  expired: true,
  idle: true,
  'idle-kept': true,
  paused: true,
  'pause-failed': true,
  'port-opened': true,
  'port-closed': true,
  'port-published': true,
  'port-unpublished': true,
  'network-changed': true,
  'secrets-changed': true,
  resumed: true,
  'rolled-back': true,
  deleted: true,
  moved: true,
  'snapshot-taken': true,
  'snapshot-imported': true,
  'snapshot-stored': true,
  'snapshot-fetched': true,
  'snapshot-changed': true,
  'snapshot-deleted': true,
  'host-unreachable': true,
  'host-reachable': true,
} satisfies Record<SandboxEvent['kind'], true>) as SandboxEvent['kind'][];

export const events: Verb = {
  name: 'events',
  operands: '[sandbox…]',
  completes: ['sandbox'],
  summary: 'Show lifecycle events of sandboxes and snapshots',
  details:
    'Shows all sandboxes unless some are named. Reconnects after a lost connection and resumes at the last event.',
  flags: {
    kind: {
      type: 'string',
      multiple: true,
      placeholder: 'kind',
      help: `${KINDS.join(', ')}; default: all`,
    },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key[=value]',
      help: 'only of sandboxes and snapshots that had this label; all that are given must match',
    },
    after: {
      type: 'string',
      placeholder: 'id',
      help: 'resume after this event id; 0: from the oldest kept event',
    },
    'no-follow': { type: 'boolean', help: 'print past events and exit' },
  },
  example: 'sandbox events --no-follow',
  async run({ operands, text, texts, isSet }, { client, terminal, signal, isJson }) {
    const after = text('after');
    const stream = client.events({
      signal,
      follow: !isSet('no-follow'),
      ...(operands.length > 0 && { sandboxes: operands }),
      ...(texts('kind').length > 0 && { kinds: texts('kind').map(toKind) }),
      ...(texts('label').length > 0 && { labels: texts('label') }),
      ...(after !== undefined && { after }),
    });
    for await (const event of stream)
      await (isJson ? terminal.writeJson(event) : terminal.write(`${toVisible(describe(event))}\n`));
    return 0;
  },
};

function toKind(word: string): SandboxEvent['kind'] {
  const kind = KINDS.find((each) => each === word);
  if (kind === undefined) throw new UsageError(`--kind must be one of ${KINDS.join(', ')}`);
  return kind;
}

function describe({ id, at, kind, sandbox, snapshot, ...facts }: SandboxEvent): string {
  const more = Object.entries(facts).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return [at, kind.padEnd(16), sandbox ?? '', snapshot ?? '', ...more]
    .filter((part) => part !== '')
    .join(' ');
}
