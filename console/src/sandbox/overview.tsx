// What a sandbox is, what it uses now, its service and its ports.
import { ForbiddenError, NotFoundError, type SandboxInfo, type SandboxStats } from '@sandboxd/client';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { pause, whileVisible } from '../live/visibility.ts';
import { Plot } from '../parts/charts.tsx';
import { formatBytes, formatSeconds, formatTime, toVisible } from '../parts/format.ts';
import { Age, Expiry } from '../parts/sandbox-facts.tsx';
import { useNow } from '../parts/use-now.ts';
import { toSource } from '../sandboxes/filters.ts';
import { endIfRefused } from '../session/session.ts';
import { useClient } from '../session/use-session.ts';
import { toHash } from '../shell/route.ts';
import { Ports } from './ports/ports.tsx';

const SLOTS = 120;
const RETRY_MS = 3000;

export function Overview({ info }: { readonly info: SandboxInfo }) {
  return (
    <div class="overview">
      {info.state === 'running' && <UsagePlots info={info} />}
      <Facts info={info} />
      <Ports info={info} />
    </div>
  );
}

function UsagePlots({ info }: { readonly info: SandboxInfo }) {
  const samples = useSamples(info.id);
  const rates = samples.slice(1).map((now, at) => toRates(now, samples[at] ?? now));
  const percent = samples.flatMap(({ cpu_percent }) => (cpu_percent === undefined ? [] : [cpu_percent]));
  const line = (name: string, kind: string, values: readonly number[]) => ({ name, kind, values });
  const ofSamples = (read: (sample: SandboxStats) => number) => samples.map(read);
  const perSecond = (value: number): string => `${formatBytes(value)}/s`;
  return (
    <section class="plots" aria-label="Usage in the last two minutes">
      <Plot
        title="CPU"
        slots={SLOTS}
        min={100 * info.vcpus}
        format={(value) => `${Math.round(value)} %`}
        lines={[line('used', 'first', percent)]}
      />
      <Plot
        title="Memory"
        slots={SLOTS}
        min={info.memory_mib * 2 ** 20}
        format={formatBytes}
        lines={[
          line(
            'own',
            'first',
            ofSamples((each) => each.private_bytes),
          ),
          line(
            'shared',
            'second',
            ofSamples((each) => each.resident_bytes - each.private_bytes),
          ),
        ]}
      />
      <Plot
        title="Disk"
        slots={SLOTS}
        min={2 ** 20}
        format={perSecond}
        lines={[
          line(
            'read',
            'first',
            rates.map((each) => each.read),
          ),
          line(
            'written',
            'second',
            rates.map((each) => each.written),
          ),
        ]}
      />
      {info.network !== undefined && (
        <Plot
          title="Network"
          slots={SLOTS}
          min={2 ** 10}
          format={perSecond}
          lines={[
            line(
              'in',
              'first',
              rates.map((each) => each.received),
            ),
            line(
              'out',
              'second',
              rates.map((each) => each.sent),
            ),
          ]}
        />
      )}
    </section>
  );
}

/** One sample each second while the page is visible. */
function useSamples(id: string): readonly SandboxStats[] {
  const sandbox = useClient().sandboxes.get(id);
  const [samples, setSamples] = useState<readonly SandboxStats[]>([]);
  useEffect(
    () =>
      whileVisible(async (signal) => {
        for (;;) {
          try {
            setSamples([]);
            for await (const sample of sandbox.watchStats({ signal }))
              setSamples((before) => [...before, sample].slice(-SLOTS));
          } catch (error) {
            // The page shows a lost connection and a sandbox that is gone.
            if (endIfRefused(error) || error instanceof ForbiddenError || error instanceof NotFoundError)
              return;
          }
          await pause(RETRY_MS, signal);
        }
      }),
    [id],
  );
  return samples;
}

function toRates(now: SandboxStats, last: SandboxStats) {
  const seconds = (Date.parse(now.read_at) - Date.parse(last.read_at)) / 1000;
  const rate = (to = 0, from = 0): number => (seconds > 0 ? Math.max(0, to - from) / seconds : 0);
  return {
    read: rate(now.read_bytes, last.read_bytes),
    written: rate(now.written_bytes, last.written_bytes),
    received: rate(now.network?.received_bytes, last.network?.received_bytes),
    sent: rate(now.network?.sent_bytes, last.network?.sent_bytes),
  };
}

function Facts({ info }: { readonly info: SandboxInfo }) {
  const nowMs = useNow();
  const { idle_timeout_s: idleS, network } = info;
  return (
    <section class="panel" aria-labelledby="facts">
      <h2 id="facts">Properties</h2>
      <dl class="facts">
        <Fact name="From">
          <bdi>{toVisible(toSource(info))}</bdi>
        </Fact>
        <Fact name="Size">
          {info.vcpus} CPU, {formatBytes(info.memory_mib * 2 ** 20)} memory, {formatBytes(info.disk_bytes)}{' '}
          disk
        </Fact>
        <Fact name="Created">
          {formatTime(info.created_at)} (<Age at={info.created_at} nowMs={nowMs} /> ago)
        </Fact>
        <Fact name="Ends in">
          <Expiry at={info.expires_at} nowMs={nowMs} />
          {info.timeout_action === 'pause' && info.expires_at !== undefined && ', then paused'}
        </Fact>
        <Fact name="When idle">
          {idleS === 0 ? (
            <span class="faint">nothing</span>
          ) : (
            `${info.idle_action} after ${formatSeconds(idleS)}`
          )}
        </Fact>
        <Fact name="Last used">
          <Age at={info.last_used_at} nowMs={nowMs} /> ago
        </Fact>
        <Fact name="Network">
          {network === undefined ? <span class="faint">none</span> : <code>{network.guest_ip}</code>}
        </Fact>
        {info.parent_snapshot_id !== undefined && (
          <Fact name="Came from">
            <a href={toHash(['snapshots'])}>{info.parent_snapshot_id}</a>
          </Fact>
        )}
        {info.source_sandbox_id !== undefined && (
          <Fact name="Fork of">
            <a href={toHash(['sandboxes', info.source_sandbox_id])}>{info.source_sandbox_id}</a>
          </Fact>
        )}
        {(info.env_names?.length ?? 0) > 0 && (
          <Fact name="Variables">
            <bdi>{info.env_names?.map(toVisible).join(', ')}</bdi>
          </Fact>
        )}
      </dl>
    </section>
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
