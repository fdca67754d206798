// The hosts of a fleet, if the page is served by its gateway.
import type { HostInfo } from '@sandboxd/client';
import { count, formatBytes, toVisible } from '../parts/format.ts';
import { Panel } from '../parts/panel.tsx';
import { usePolled } from '../parts/use-polled.ts';
import { permits } from '../session/policy.ts';
import { useSession } from '../session/use-session.ts';

type Drain = NonNullable<HostInfo['drain']>;

const ROUND_MS = 5000;
const TONES = { ready: 'good', 'not-ready': 'busy', unreachable: 'bad' } as const;

/** Nothing for a daemon alone, whose figures are on the page, and for one that does not know the request. */
export function Hosts() {
  const { client, policy } = useSession();
  const isPermitted = permits(policy, 'metrics');
  const { value: hosts } = usePolled('hosts', ROUND_MS, async (signal) =>
    isPermitted ? await client.hosts({ signal }) : undefined,
  );
  if (hosts === undefined || hosts.every(({ places }) => places === undefined)) return null;
  const away = hosts.filter(({ state }) => state === 'unreachable').length;
  const title = `${count(hosts.length, 'host')}${away === 0 ? '' : `, ${away} unreachable`}`;
  return (
    <Panel id="hosts" title={title}>
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Host</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Sandboxes
            </th>
            <th scope="col" class="number">
              Memory promised
            </th>
            <th scope="col" class="number wide">
              Disk free
            </th>
            <th scope="col" class="wide">
              Version
            </th>
          </tr>
        </thead>
        <tbody>
          {hosts.map((host) => (
            <Row key={host.name} host={host} />
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function toText({ state, left, offered, moved, seconds_left: seconds }: Drain): string {
  const parts = [
    toVisible(state),
    ...(left > 0 ? [`${left} left`] : []),
    ...(offered > 0 ? [`${offered} offered`] : []),
    `${moved} moved`,
    ...(seconds === undefined ? [] : [`about ${seconds} s`]),
  ];
  return parts.join(', ');
}

function Row({ host }: { readonly host: HostInfo }) {
  const { drain, name, state, reason, places = 0, sandboxes = places, max_sandboxes: max } = host;
  const { memory_promised_bytes: promised, memory_bytes: memory, disk_free_bytes: free } = host;
  return (
    <tr>
      <td>
        <bdi>{toVisible(name)}</bdi>
        {reason !== undefined && <p class="faint untrusted">{toVisible(reason)}</p>}
      </td>
      <td>
        <span class={`tag tag-${TONES[state] ?? 'plain'}`}>{toVisible(state)}</span>
        {drain !== undefined && <p class="faint">{toText(drain)}</p>}
      </td>
      <td class="number">
        {sandboxes}
        {max !== undefined && ` of ${max}`}
      </td>
      <td class="number">
        {promised !== undefined && formatBytes(promised)}
        {memory !== undefined && ` of ${formatBytes(memory)}`}
      </td>
      <td class="number wide">{free !== undefined && formatBytes(free)}</td>
      <td class="wide">{toVisible(host.version ?? '')}</td>
    </tr>
  );
}
