// The stored log of a sandbox as it grows, with a search, and the state of its service.
import type { LogRecord, SandboxInfo, ServiceStatus } from '@sandboxd/client';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { whileVisible } from '../live/visibility.ts';
import { ActionButton } from '../parts/button.tsx';
import { formatSeconds, toVisible } from '../parts/format.ts';
import { attempt } from '../parts/notices.tsx';
import { Empty, Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { endIfRefused } from '../session/session.ts';
import { useClient } from '../session/use-session.ts';
import { useShortcuts } from '../shell/shortcuts.ts';
import { type LogLine, LogLines } from './log-lines.ts';

const SOURCES = ['all', 'service', 'exec'] as const;

export function LogsTab({ info }: { readonly info: SandboxInfo }) {
  const [source, setSource] = useState<(typeof SOURCES)[number]>('all');
  const [isFollowing, setFollowing] = useState(true);
  const [text, setText] = useState('');
  const { lines, error, isRead } = useLog(info.id, source, isFollowing);
  const area = useRef<HTMLDivElement>(null);
  const shown =
    text === '' ? lines : lines.filter((line) => line.text.toLowerCase().includes(text.toLowerCase()));
  useShortcuts([
    { keys: '/', what: 'Search the log', run: () => document.querySelector<HTMLElement>('.search')?.focus() },
  ]);
  useLayoutEffect(() => {
    if (isFollowing) area.current?.scrollTo({ top: area.current.scrollHeight });
  }, [shown.length, lines.at(-1)?.text.length, isFollowing]);
  return (
    <div class="logs">
      <ServiceBar info={info} />
      <search class="toolbar">
        <input
          type="search"
          class="search"
          placeholder="Search the log"
          aria-label="Search the log"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
        <div class="segments" role="group" aria-label="Source">
          {SOURCES.map((each) => (
            <button key={each} type="button" aria-pressed={source === each} onClick={() => setSource(each)}>
              {each === 'exec' ? 'commands' : each}
            </button>
          ))}
        </div>
        <label class="check">
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={({ currentTarget }) => setFollowing(currentTarget.checked)}
          />
          <span>Follow</span>
        </label>
      </search>
      {error !== undefined && <Problem error={error} />}
      {error === undefined && !isRead && <Loading what="the log" />}
      {error === undefined && isRead && lines.length === 0 && (
        <Empty title="The log is empty">
          <p>Output of commands and of the service is kept here, also after the sandbox is deleted.</p>
        </Empty>
      )}
      {lines.length > 0 && (
        <div class="log" ref={area} tabIndex={0} role="log" aria-label="Log" aria-live="off">
          {shown.map(({ id, timeMs, stream, text: line }) => (
            <div key={id} class={`log-line log-${stream}`}>
              <time>{new Date(timeMs).toLocaleTimeString('en-GB')}</time>
              <span>{line}</span>
            </div>
          ))}
          {shown.length === 0 && <p class="faint">No line matches.</p>}
        </div>
      )}
    </div>
  );
}

function useLog(id: string, source: LogRecord['source'] | 'all', isFollowing: boolean) {
  const client = useClient();
  const [state, setState] = useState<{ lines: readonly LogLine[]; error?: unknown; isRead: boolean }>({
    lines: [],
    isRead: false,
  });
  useEffect(
    () =>
      whileVisible(async (signal) => {
        const lines = new LogLines();
        let isDue = false;
        const show = (): void => {
          isDue = false;
          if (!signal.aborted) setState({ lines: lines.all, isRead: true });
        };
        setTimeout(show, 300);
        try {
          for await (const record of client.sandboxes.logs(id, { source, follow: isFollowing, signal })) {
            lines.push(record);
            if (!isDue) requestAnimationFrame(show);
            isDue = true;
          }
        } catch (error) {
          if (!signal.aborted && !endIfRefused(error)) setState({ lines: [], isRead: true, error });
        }
      }),
    [id, source, isFollowing],
  );
  return state;
}

function ServiceBar({ info }: { readonly info: SandboxInfo }) {
  const { service } = useClient().sandboxes.get(info.id);
  const isRunning = info.state === 'running';
  const { value, reload } = useLoaded(`service ${info.id} ${info.state}`, async (signal) =>
    isRunning ? service.status({ signal }) : undefined,
  );
  if (value === undefined || value.state === 'idle') return null;
  const act = (name: string, work: () => Promise<ServiceStatus>) => (
    <ActionButton
      needs="exec"
      onClick={async () => {
        await attempt(work);
        reload();
      }}
    >
      {name}
    </ActionButton>
  );
  return (
    <div class="service">
      <span>Service</span>
      <span
        class={`tag tag-${value.state === 'running' ? 'good' : value.state === 'failed' ? 'bad' : 'busy'}`}
      >
        {value.state}
      </span>
      <code>
        <bdi>{toVisible(value.spec?.cmd?.join(' ') ?? '')}</bdi>
      </code>
      {value.uptime_ms !== undefined && (
        <span class="faint">for {formatSeconds(value.uptime_ms / 1000)}</span>
      )}
      {act('Restart', () => service.restart())}
      {value.state === 'stopped' || value.state === 'failed'
        ? act('Start', () => service.start())
        : act('Stop', () => service.stop())}
    </div>
  );
}
