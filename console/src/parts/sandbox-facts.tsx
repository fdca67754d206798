// How a sandbox appears wherever it is named: its state, its labels, its end.
import type { SandboxInfo } from '@sandboxd/client';
import { formatSeconds, formatTime, toVisible } from './format.ts';

const TONES: Readonly<Record<string, string>> = { running: 'good', paused: 'calm', failed: 'bad' };

export function State({ state }: { readonly state: SandboxInfo['state'] }) {
  return <span class={`tag tag-${TONES[state] ?? 'busy'}`}>{state}</span>;
}

/** `onPick` filters by the label that was clicked. */
export function Labels({
  labels,
  onPick,
}: {
  readonly labels: Readonly<Record<string, string>>;
  readonly onPick?: (label: string) => void;
}) {
  return (
    <span class="labels" title={Object.entries(labels).map(toText).join(' ')}>
      {Object.entries(labels).map(([key, value]) => {
        const text = toText([key, value]);
        if (onPick === undefined)
          return (
            <span class="label" key={key} title={text}>
              <bdi>{text}</bdi>
            </span>
          );
        return (
          <button
            type="button"
            class="label"
            key={key}
            title={`Show only ${text}`}
            onClick={() => onPick(`${key}=${value}`)}
          >
            <bdi>{text}</bdi>
          </button>
        );
      })}
    </span>
  );
}

function toText([key, value]: readonly [string, string]): string {
  return toVisible(value === '' ? key : `${key}=${value}`);
}

/** Time left, or nothing for a sandbox without an end. */
export function Expiry({ at, nowMs }: { readonly at: string | undefined; readonly nowMs: number }) {
  if (at === undefined) return <span class="faint">no end</span>;
  const seconds = (Date.parse(at) - nowMs) / 1000;
  return (
    <time dateTime={at} title={formatTime(at)} class={seconds < 300 ? 'soon' : undefined}>
      {seconds <= 0 ? 'now' : formatSeconds(seconds)}
    </time>
  );
}

export function Age({ at, nowMs }: { readonly at: string; readonly nowMs: number }) {
  return (
    <time dateTime={at} title={formatTime(at)}>
      {formatSeconds((nowMs - Date.parse(at)) / 1000)}
    </time>
  );
}

export function displayName({
  id,
  name,
}: {
  readonly id: string;
  readonly name?: string | undefined;
}): string {
  return name === undefined ? id : toVisible(name);
}
