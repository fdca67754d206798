// Operations, bounds and limits of keys, in words.
import { count, formatBytes, formatSeconds, toVisible } from '../parts/format.ts';
import type { Operation } from '../session/policy.ts';

export const OPERATIONS: readonly (readonly [Operation, string])[] = [
  ['view', 'see lists, states, figures and events'],
  ['read', 'read files, logs and output of guests'],
  ['create', 'create sandboxes, and change their names and timeouts'],
  ['exec', 'run commands, write files, pause and resume'],
  ['connect', 'connect to ports of guests, and open them for URLs'],
  ['network', 'change what sandboxes may reach'],
  ['secrets', 'store and delete secrets'],
  ['snapshot', 'take, export and import snapshots'],
  ['fork', 'make copies of snapshots'],
  ['delete', 'delete sandboxes and snapshots'],
  ['images', 'pull, import and delete images'],
  ['metrics', 'read the metrics of the host'],
];

type Words = (value: never) => string;
const listed = (none: string, some: (names: string) => string) => (names: readonly string[]) =>
  names.length === 0 ? none : some(names.join(', '));

/** Those on numbers of sandboxes are among the limits with a use. */
const BOUNDS: Readonly<Record<string, Words>> = {
  max_vcpus: (value: number) => `a sandbox has at most ${count(value, 'CPU')}`,
  max_memory_mib: (value: number) => `a sandbox has at most ${formatBytes(value * 2 ** 20)} of memory`,
  max_timeout_s: (value: number) => `a sandbox lives at most ${formatSeconds(value)}`,
  max_idle_timeout_s: (value: number) => `a sandbox is idle at most ${formatSeconds(value)}`,
  max_fork: (value: number) => `a request makes at most ${value} forks`,
  allow_profiles: listed('it boots no profile', (names) => `it boots only the profiles ${names}`),
  allow_secrets: listed(
    'sandboxes use no stored secret',
    (names) => `sandboxes use only the secrets ${names}`,
  ),
  publish_ports: listed('no port of the host is published', (names) => `published ports are among ${names}`),
  publish_addresses: listed(
    'ports are published on no address',
    (names) => `ports are published on ${names} only`,
  ),
  net_allow_max: listed('sandboxes have no network', (names) => `sandboxes reach at most ${names}`),
  net_require_inspect: () => 'networks have only rules whose requests are read',
  net_presets: listed('no preset of networks', (names) => `of the presets only ${names}`),
};

/** Undefined for what other parts of the page have. */
export function describeBound(name: string, value: unknown): string | undefined {
  if (name === 'operations' || /^max_(?:sandboxes|paused|snapshots|published_ports)$/.test(name))
    return undefined;
  const words = Object.hasOwn(BOUNDS, name) ? BOUNDS[name] : undefined;
  const isKnown = typeof value === 'number' || value === true || Array.isArray(value);
  if (words !== undefined && isKnown) return words(value as never);
  // A later daemon may have more.
  return `${name.replaceAll('_', ' ')}: ${Array.isArray(value) ? value.join(', ') || 'none' : String(value)}`;
}

const LIMITS: Readonly<Record<string, string>> = {
  max_sandboxes: 'Sandboxes that run',
  max_vcpus: 'CPUs',
  max_memory_mib: 'Memory',
  max_disk_bytes: 'Disks, at their full size',
  max_paused: 'Paused sandboxes',
  max_snapshots: 'Snapshots',
  max_stored_bytes: 'Stored snapshots',
  max_published_ports: 'Published ports',
  max_creates_per_minute: 'Creates within a minute',
  max_changes_per_minute: 'Changes within a minute',
};

export function describeUse(limit: string, used: number, max: number): { name: string; text: string } {
  const name =
    (Object.hasOwn(LIMITS, limit) ? LIMITS[limit] : undefined) ?? toVisible(limit.replaceAll('_', ' '));
  const perUnit = limit === 'max_memory_mib' ? 2 ** 20 : limit.endsWith('_bytes') ? 1 : undefined;
  const format = (value: number) =>
    perUnit === undefined ? value.toLocaleString('en') : formatBytes(value * perUnit);
  return { name, text: `${format(used)} of ${format(max)}` };
}
