// `sandbox hosts`: the hosts of a fleet.
import type { HostInfo } from '../../contract.ts';
import { formatBytes } from '../terminal.ts';
import type { Verb } from '../verb.ts';

export const hosts: Verb = {
  name: 'hosts',
  operands: '',
  summary: 'List the hosts of the fleet',
  details:
    'Also those that do not answer: then PLACES says how many sandboxes are there. DRAIN says how far a host is that is drained. A daemon alone lists itself. Needs the operation metrics, and no tenant.',
  flags: { quiet: { type: 'boolean', short: 'q', help: 'print names only' } },
  example: 'sandbox hosts',
  async run({ isSet }, { client, terminal, signal, isJson }) {
    const all = await client.hosts({ signal });
    if (isJson) terminal.printJson(all);
    else if (isSet('quiet')) for (const { name } of all) terminal.print(name);
    // One more column while a host is drained.
    else if (all.every(({ drain }) => drain === undefined)) terminal.table(HEAD, all.map(toRow));
    else
      terminal.table(
        [...HEAD, 'DRAIN'],
        all.map((host) => [...toRow(host), toDrainText(host)]),
      );
    for (const { name, state, reason } of isJson ? [] : all)
      if (state === 'unreachable' && reason !== undefined) terminal.complain(`${name}: ${reason}`);
    return 0;
  },
};

const HEAD = [
  'HOST',
  'STATE',
  'ENGINE',
  'CPUS',
  'MEMORY',
  'PROMISED',
  'DISK FREE',
  'SANDBOXES',
  'PLACES',
  'VERSION',
];

/** `3 left, 2 offered, 4 moved; about 40 s`. */
function toDrainText({ drain }: HostInfo): string {
  if (drain === undefined) return '';
  const { state, left, offered, stays, moved, seconds_left: seconds } = drain;
  const counts = Object.entries({ left, offered, stays }).filter(([, count]) => count > 0);
  const text = [...counts, ['moved', moved]].map(([what, count]) => `${count} ${what}`).join(', ');
  return `${state}: ${text}${seconds === undefined ? '' : `; about ${seconds} s`}`;
}

function toRow({ name, state, engine, engine_name, version, ...host }: HostInfo): string[] {
  const of = (value: number | undefined, max?: number): string =>
    value === undefined ? '' : `${value}${max === undefined ? '' : ` of ${max}`}`;
  const bytes = (value: number | undefined): string => (value === undefined ? '' : formatBytes(value));
  return [
    name,
    state,
    engine_name ?? engine ?? '',
    of(host.cpus),
    bytes(host.memory_bytes),
    bytes(host.memory_promised_bytes),
    bytes(host.disk_free_bytes),
    of(host.sandboxes, host.max_sandboxes),
    of(host.places),
    version ?? '',
  ];
}
