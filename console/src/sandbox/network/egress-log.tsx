// What a sandbox reached and what it was denied, as it happens, with a rule from each denied line.
import type { EgressRecord, NetworkPolicy } from '@sandboxd/client';
import { useEffect, useState } from 'preact/hooks';
import { whileVisible } from '../../live/visibility.ts';
import { ActionButton } from '../../parts/button.tsx';
import { formatBytes, formatTime, toVisible } from '../../parts/format.ts';
import { Problem } from '../../parts/states.tsx';
import { endIfRefused } from '../../session/session.ts';
import { useClient } from '../../session/use-session.ts';
import { permitting } from './rules.ts';

const MAX_RECORDS = 500;
const TONES: Readonly<Record<string, string>> = { allowed: 'good', denied: 'bad' };

type LogProps = {
  readonly id: string;
  readonly policy: NetworkPolicy;
  readonly onPermit: (record: EgressRecord) => unknown;
};

export function EgressLog({ id, policy, onPermit }: LogProps) {
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
            <span class={`tag tag-${TONES[record.verdict] ?? 'busy'}`}>{record.verdict}</span>
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

function toTarget({ name, address, port, protocol, method, path }: EgressRecord): string {
  const connection = `${protocol ?? ''} ${name ?? address ?? ''}${port === undefined ? '' : `:${port}`}`;
  return [connection.trim(), method, path].filter(Boolean).join(' ');
}

function toDetail({ reason, rule, status, secrets, forms, ms, dropped, ...record }: EgressRecord): string {
  const { bytes_up: up, bytes_down: down } = record;
  const bytes =
    up === undefined && down === undefined ? '' : `↑ ${formatBytes(up ?? 0)} ↓ ${formatBytes(down ?? 0)}`;
  const parts = [
    status !== undefined && `status ${status}`,
    reason,
    rule,
    secrets !== undefined && `secret ${secrets.join(', ')} (${forms?.join(', ') ?? ''})`,
    bytes,
    ms !== undefined && `${ms} ms`,
    dropped !== undefined && `${dropped} missing`,
  ];
  return parts.filter(Boolean).join(' · ');
}
