// Capacity, start times and failures of the host, from its metrics.
import { ForbiddenError } from '@sandboxd/client';
import type { ComponentChildren } from 'preact';
import { Meter } from '../parts/charts.tsx';
import { formatBytes, toVisible } from '../parts/format.ts';
import { Panel } from '../parts/panel.tsx';
import { Loading, Problem } from '../parts/states.tsx';
import { usePolled } from '../parts/use-polled.ts';
import { permits } from '../session/policy.ts';
import { toSentence } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { parseMetrics, quantileOf, type Samples, sumOf, sumsBy } from './metrics.ts';

const ROUND_MS = 5000;
const STARTS = 'sandboxd_sandbox_start_duration_seconds';
const ORIGINS = { template: 'from a template', boot: 'by a boot', snapshot: 'from a snapshot' } as const;
const LIFE_PROBLEMS = ['died', 'hung', 'pause-failed'];

export function Figures() {
  const { client, policy } = useSession();
  const isPermitted = permits(policy, 'metrics');
  const {
    value: samples,
    error,
    reload,
  } = usePolled('metrics', ROUND_MS, async (signal) =>
    isPermitted ? parseMetrics(await client.metrics({ signal })) : undefined,
  );
  if (!isPermitted)
    return (
      <Panel id="figures" title="Figures">
        <p class="faint">
          This key lacks the operation metrics, which shows capacity, start times and failures.
        </p>
      </Panel>
    );
  // Of a tenant, for example, whose key has none.
  if (error instanceof ForbiddenError)
    return (
      <Panel id="figures" title="Figures">
        <p class="faint untrusted">{toSentence(error)}</p>
      </Panel>
    );
  if (samples === undefined) {
    if (error !== undefined) return <Problem error={error} onRetry={reload} />;
    return <Loading what="figures" />;
  }
  return (
    <>
      <Capacity samples={samples} />
      <Starts samples={samples} />
      <Failures samples={samples} />
      <Daemon samples={samples} />
    </>
  );
}

type Props = { readonly samples: Samples };

function Capacity({ samples }: Props) {
  const total = sumOf(samples, 'sandboxd_host_memory_bytes');
  const available = sumOf(samples, 'sandboxd_host_memory_available_bytes');
  const promised = sumOf(samples, 'sandboxd_memory_promised_bytes');
  const free = sumOf(samples, 'sandboxd_data_free_bytes');
  const used = sumOf(samples, 'sandboxd_jail_users_used');
  const users = sumOf(samples, 'sandboxd_jail_users');
  return (
    <Panel id="capacity" title="Capacity">
      <div class="uses">
        <ul>
          {total !== undefined && available !== undefined && (
            <Share name="Memory in use" used={total - available} max={total} format={formatBytes} />
          )}
          {total !== undefined && promised !== undefined && (
            <Share name="Memory promised to guests" used={promised} max={total} format={formatBytes} />
          )}
          {used !== undefined && users !== undefined && users > 0 && (
            <Share
              name="Users for VMMs"
              used={used}
              max={users}
              format={(value) => value.toLocaleString('en')}
            />
          )}
        </ul>
      </div>
      <dl class="facts">
        {free !== undefined && <Fact name="Free disk">{formatBytes(free)}</Fact>}
        <Fact name="Sandboxes">{toList(sumsBy(samples, 'sandboxd_sandboxes', 'state'), 'none')}</Fact>
        <Fact name="Snapshots">{sumOf(samples, 'sandboxd_snapshots') ?? 0}</Fact>
        <Fact name="Starts that wait">{sumOf(samples, 'sandboxd_starts_queued') ?? 0}</Fact>
      </dl>
    </Panel>
  );
}

function Starts({ samples }: Props) {
  const rows = Object.entries(ORIGINS).flatMap(([origin, words]) => {
    const count = sumOf(samples, `${STARTS}_count`, { origin }) ?? 0;
    if (count === 0) return [];
    const at = (share: number) => formatDuration(quantileOf(samples, STARTS, share, { origin }));
    return [{ words, count, half: at(0.5), most: at(0.95) }];
  });
  return (
    <Panel id="starts" title="Starts since the daemon began">
      {rows.length === 0 && <p class="faint">None yet.</p>}
      {rows.length > 0 && (
        <table class="plain-table">
          <thead>
            <tr>
              <th>Start</th>
              <th class="number">Count</th>
              <th class="number">Half within</th>
              <th class="number">95 % within</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ words, count, half, most }) => (
              <tr key={words}>
                <td>{words}</td>
                <td class="number">{count.toLocaleString('en')}</td>
                <td class="number">{half}</td>
                <td class="number">{most}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {rows.length > 0 && <p class="hint">As exact as the buckets of the metric.</p>}
    </Panel>
  );
}

function Failures({ samples }: Props) {
  const refusals = sumsBy(samples, 'sandboxd_admission_refusals_total', 'what');
  const life = sumsBy(samples, 'sandboxd_life_events_total', 'kind').filter(([kind]) =>
    LIFE_PROBLEMS.includes(kind),
  );
  const failed = sumOf(samples, 'sandboxd_requests_total', { result: 'failed' }) ?? 0;
  const refused = sumOf(samples, 'sandboxd_requests_total', { result: 'refused' }) ?? 0;
  const denied = sumOf(samples, 'sandboxd_egress_total', { verdict: 'denied' }) ?? 0;
  return (
    <Panel id="failures" title="Failures since the daemon began">
      <dl class="facts">
        <Fact name="Guests">{toList(life, 'none died or hung')}</Fact>
        <Fact name="No capacity">{toList(refusals, 'no request refused')}</Fact>
        <Fact name="Requests">
          {failed.toLocaleString('en')} failed, {refused.toLocaleString('en')} refused
        </Fact>
        <Fact name="Egress denied">{denied.toLocaleString('en')}</Fact>
      </dl>
    </Panel>
  );
}

function Daemon({ samples }: Props) {
  const resident = sumOf(samples, 'process_resident_memory_bytes');
  const files = sumOf(samples, 'process_open_fds');
  const delay = sumOf(samples, 'sandboxd_event_loop_delay_seconds', { quantile: 'p99' });
  const startedAt = sumOf(samples, 'process_start_time_seconds');
  return (
    <Panel id="daemon" title="Daemon">
      <dl class="facts">
        {startedAt !== undefined && (
          <Fact name="Runs since">{new Date(1000 * startedAt).toLocaleString('en-GB')}</Fact>
        )}
        {resident !== undefined && <Fact name="Memory">{formatBytes(resident)}</Fact>}
        <Fact name="Open requests">{sumOf(samples, 'sandboxd_requests_open') ?? 0}</Fact>
        {files !== undefined && <Fact name="Open files">{files.toLocaleString('en')}</Fact>}
        {delay !== undefined && <Fact name="Event loop">{formatDuration(delay)} late, of 99 %</Fact>}
      </dl>
    </Panel>
  );
}

type ShareProps = {
  readonly name: string;
  readonly used: number;
  readonly max: number;
  readonly format: (value: number) => string;
};

function Share({ name, used, max, format }: ShareProps) {
  return (
    <li>
      <span>{name}</span>
      <Meter value={used} max={max} />
      <span class="number">
        {format(used)} of {format(max)}
      </span>
    </li>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function toList(sums: readonly (readonly [string, number])[], none: string): string {
  return sums.map(([what, value]) => `${value.toLocaleString('en')} ${toVisible(what)}`).join(', ') || none;
}

function formatDuration(seconds: number | undefined): string {
  if (seconds === undefined) return '–';
  return seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(1)} s`;
}
