// Events as lines: when, what, to which sandbox or snapshot.
import type { SandboxEvent } from '@sandboxd/client';
import { formatSeconds, formatTime, toVisible } from '../parts/format.ts';
import { toHash } from '../shell/route.ts';

const TONES: Readonly<Record<string, string>> = {
  ...{ died: 'bad', hung: 'bad', 'host-unreachable': 'bad', 'pause-failed': 'bad', expired: 'busy' },
  ...{
    created: 'good',
    forked: 'good',
    resumed: 'good',
    recovered: 'good',
    'host-reachable': 'good',
    paused: 'calm',
  },
};

export function EventList({
  events,
  hasSandbox,
}: {
  readonly events: readonly SandboxEvent[];
  readonly hasSandbox: boolean;
}) {
  return (
    <ol class="events">
      {events.map((event) => (
        <li key={event.id}>
          <time dateTime={event.at}>{formatTime(event.at)}</time>
          <span class={`tag tag-${TONES[event.kind] ?? 'plain'}`}>{event.kind}</span>
          {hasSandbox && <Subject event={event} />}
          <span class="event-detail">
            <bdi>{describe(event)}</bdi>
          </span>
        </li>
      ))}
    </ol>
  );
}

function Subject({ event: { sandbox, snapshot, name } }: { readonly event: SandboxEvent }) {
  const shown = name === undefined ? (sandbox ?? snapshot ?? '') : toVisible(name);
  if (sandbox === undefined) return <code>{shown}</code>;
  return (
    <a href={toHash(['sandboxes', sandbox])}>
      <bdi>{shown}</bdi>
    </a>
  );
}

/** The facts of an event, as a line. */
export function describe(event: SandboxEvent): string {
  const { reason, snapshot, source_snapshot_id: source, source_sandbox_id: parent } = event;
  const { changed, port, access, host_port, duration_ms: ms, asleep_ms: asleepMs, closed } = event;
  const parts = [
    event.host && `host ${event.host}`,
    reason,
    event.origin && `from ${event.origin}`,
    source && `of ${source}`,
    parent && `of ${parent}`,
    snapshot,
    changed?.join(', '),
    port !== undefined && `port ${port}${access === undefined ? '' : ` ${access}`}`,
    host_port !== undefined && `host port ${host_port}`,
    event.generation !== undefined && `generation ${event.generation}`,
    closed !== undefined && closed > 0 && `${closed} closed`,
    asleepMs !== undefined && `after ${formatSeconds(asleepMs / 1000)} of sleep`,
    ms !== undefined && `in ${ms} ms`,
  ];
  return toVisible(parts.filter(Boolean).join(' · '));
}
