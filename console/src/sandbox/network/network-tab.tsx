// What a sandbox may reach, what it reached and was denied, and a rule from each denied line.
import type { EgressRecord, NetworkPolicy, SandboxInfo } from '@sandboxd/client';
import { useEffect, useState } from 'preact/hooks';
import { whileVisible } from '../../live/visibility.ts';
import { ActionButton } from '../../parts/button.tsx';
import { formatBytes, formatTime, toVisible } from '../../parts/format.ts';
import { attempt, notify } from '../../parts/notices.tsx';
import { Empty, Loading, Problem } from '../../parts/states.tsx';
import { useLoaded } from '../../parts/use-loaded.ts';
import { endIfRefused } from '../../session/session.ts';
import { useClient } from '../../session/use-session.ts';
import { describeRule, permitting } from './rules.ts';

const MAX_RECORDS = 500;

export function NetworkTab({ info }: { readonly info: SandboxInfo }) {
  const { network } = useClient().sandboxes.get(info.id);
  const { value, error, reload } = useLoaded(`network ${info.id}`, async (signal) =>
    info.network === undefined ? undefined : network.get({ signal }),
  );
  if (info.network === undefined) {
    return (
      <Empty title="This sandbox has no network">
        <p>
          A network is chosen at the create, such as{' '}
          <code>sandbox run --network-allow '*.debian.org' base</code>.
        </p>
      </Empty>
    );
  }
  if (error !== undefined) return <Problem error={error} onRetry={reload} />;
  if (value === undefined) return <Loading what="the network" />;
  const permit = (record: EgressRecord) =>
    attempt(async () => {
      const change = permitting(record, value);
      if (change === undefined) return;
      await network.update({ ...change, if_generation: value.generation });
      notify('The sandbox may reach it now');
      reload();
    });
  return (
    <div class="network">
      <Policy policy={value} onChanged={reload} id={info.id} />
      <EgressLog id={info.id} policy={value} onPermit={permit} />
    </div>
  );
}

type PolicyProps = { readonly policy: NetworkPolicy; readonly id: string; readonly onChanged: () => void };

function Policy({ policy, id, onChanged }: PolicyProps) {
  const { network } = useClient().sandboxes.get(id);
  const remove = async (changes: Parameters<typeof network.update>[0]): Promise<void> => {
    await attempt(() => network.update({ ...changes, if_generation: policy.generation }));
    onChanged();
  };
  const { allowlist, rules, presets } = policy;
  return (
    <section class="panel" aria-labelledby="rules">
      <h2 id="rules">It may reach</h2>
      {allowlist.length + rules.length + presets.length === 0 && <p class="faint">Nothing</p>}
      <ul class="lines">
        {allowlist.map((host) => (
          <li key={host}>
            <code>{toVisible(host)}</code>
            <span class="faint">all ports</span>
            <ActionButton
              kind="quiet"
              needs="network"
              label={`Remove ${toVisible(host)}`}
              onClick={() => remove({ allowlist: allowlist.filter((each) => each !== host) })}
            >
              ×
            </ActionButton>
          </li>
        ))}
        {rules.map((rule, at) => (
          <li key={describeRule(rule)}>
            <code>{toVisible(describeRule(rule))}</code>
            <ActionButton
              kind="quiet"
              needs="network"
              label={`Remove ${toVisible(describeRule(rule))}`}
              onClick={() => remove({ rules: rules.filter((_, index) => index !== at) })}
            >
              ×
            </ActionButton>
          </li>
        ))}
        {presets.map((preset) => (
          <li key={preset.name}>
            <span class="tag">preset</span> <code>{toVisible(preset.name)}</code>
            <span class="faint">{preset.rules.map(describeRule).map(toVisible).join(', ')}</span>
          </li>
        ))}
      </ul>
      <p class="hint">
        Guest <code>{policy.guest_ip}</code>, gateway <code>{policy.gateway}</code>, policy{' '}
        {policy.generation}, log of {policy.log === 'off' ? 'nothing' : policy.log}.
      </p>
    </section>
  );
}

type LogProps = {
  readonly id: string;
  readonly policy: NetworkPolicy;
  readonly onPermit: (record: EgressRecord) => unknown;
};

function EgressLog({ id, policy, onPermit }: LogProps) {
  const { network } = useClient().sandboxes.get(id);
  const [records, setRecords] = useState<readonly EgressRecord[]>([]);
  const [error, setError] = useState<unknown>();
  const [verdict, setVerdict] = useState<'all' | 'allowed' | 'denied'>('all');
  useEffect(
    () =>
      whileVisible(async (signal) => {
        setRecords([]);
        try {
          for await (const record of network.egress({ verdict, follow: true, signal }))
            setRecords((before) => [record, ...before].slice(0, MAX_RECORDS));
        } catch (problem) {
          if (!signal.aborted && !endIfRefused(problem)) setError(problem);
        }
      }),
    [id, verdict],
  );
  return (
    <section class="panel" aria-labelledby="egress">
      <header class="panel-head">
        <h2 id="egress">Egress</h2>
        <div class="segments" role="group" aria-label="Verdict">
          {(['all', 'allowed', 'denied'] as const).map((each) => (
            <button key={each} type="button" aria-pressed={verdict === each} onClick={() => setVerdict(each)}>
              {each}
            </button>
          ))}
        </div>
      </header>
      {error !== undefined && <Problem error={error} />}
      {error === undefined && records.length === 0 && (
        <p class="faint">Nothing yet. Connections of the guest appear here when they end or are denied.</p>
      )}
      <ol class="events egress">
        {records.map((record, at) => (
          <li key={`${record.at} ${records.length - at}`}>
            <time dateTime={record.at}>{formatTime(record.at)}</time>
            <span class={`tag tag-${record.verdict === 'denied' ? 'bad' : 'good'}`}>{record.verdict}</span>
            <code>
              <bdi>{toVisible(toTarget(record))}</bdi>
            </code>
            <span class="event-detail">
              <bdi>{toVisible(toDetail(record))}</bdi>
            </span>
            {record.verdict === 'denied' && permitting(record, policy) !== undefined && (
              <ActionButton kind="quiet" needs="network" onClick={() => onPermit(record)}>
                Allow
              </ActionButton>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function toTarget({ name, address, port, protocol }: EgressRecord): string {
  return `${protocol ?? ''} ${name ?? address ?? ''}${port === undefined ? '' : `:${port}`}`.trim();
}

function toDetail({ reason, rule, bytes_up: up, bytes_down: down, ms, dropped }: EgressRecord): string {
  const bytes =
    up === undefined && down === undefined ? '' : `↑ ${formatBytes(up ?? 0)} ↓ ${formatBytes(down ?? 0)}`;
  const parts = [
    reason,
    rule,
    bytes,
    ms !== undefined && `${ms} ms`,
    dropped !== undefined && `${dropped} missing`,
  ];
  return parts.filter(Boolean).join(' · ');
}
