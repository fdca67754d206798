// One command: its output as it grows, its result, and its end on demand.
import type { CommandInfo } from '@sandboxd/client';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { whileVisible } from '../../live/visibility.ts';
import { ActionButton } from '../../parts/button.tsx';
import { formatBytes, toVisible } from '../../parts/format.ts';
import { attempt } from '../../parts/notices.tsx';
import { Loading, Problem } from '../../parts/states.tsx';
import { endIfRefused } from '../../session/session.ts';
import { useClient } from '../../session/use-session.ts';
import { toHash } from '../../shell/route.ts';
import { type LogLine, LogLines } from '../log-lines.ts';

const GRACE_S = 2;

type Props = {
  readonly sandboxId: string;
  readonly command: CommandInfo;
  readonly onChange: () => void;
};

export function CommandOutput({ sandboxId, command, onChange }: Props) {
  const { commands } = useClient().sandboxes.get(sandboxId);
  const [isFollowing, setFollowing] = useState(true);
  const end = async (graceS: number): Promise<void> => {
    await attempt(() => commands.get(command.id).kill({ graceS }));
    onChange();
  };
  const { warnings = [], result } = command;
  return (
    <section class="command" aria-label="Command">
      <header class="file-head">
        <Outcome command={command} />
        <code title={command.id}>
          <bdi>{toLine(command)}</bdi>
        </code>
        {command.state === 'running' && (
          <>
            <ActionButton needs="exec" onClick={() => end(GRACE_S)}>
              End it
            </ActionButton>
            <ActionButton kind="danger" needs="exec" onClick={() => end(0)}>
              Kill
            </ActionButton>
          </>
        )}
        <label class="check">
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={({ currentTarget }) => setFollowing(currentTarget.checked)}
          />
          <span>Follow</span>
        </label>
      </header>
      {result?.error !== undefined && <p class="state-note untrusted">{toVisible(result.error)}</p>}
      {warnings.map((warning) => (
        <p key={warning} class="state-note untrusted">
          {toVisible(warning)}
        </p>
      ))}
      {command.detached ? (
        <Output sandboxId={sandboxId} id={command.id} isFollowing={isFollowing} onEnd={onChange} />
      ) : (
        <p class="state-note">
          Its output goes to the client that started it, and to{' '}
          <a href={toHash(['sandboxes', sandboxId], new URLSearchParams({ tab: 'logs' }))}>the log</a>.
        </p>
      )}
    </section>
  );
}

type OutputProps = {
  readonly sandboxId: string;
  readonly id: string;
  readonly isFollowing: boolean;
  readonly onEnd: () => void;
};

function Output({ sandboxId, id, isFollowing, onEnd }: OutputProps) {
  const { lines, droppedBytes, error, isRead } = useOutput(sandboxId, id, onEnd);
  const area = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (isFollowing) area.current?.scrollTo({ top: area.current.scrollHeight });
  }, [lines, isFollowing]);
  if (error !== undefined) return <Problem error={error} />;
  if (!isRead) return <Loading what="the output" />;
  if (lines.length === 0) return <p class="state-note">It has written nothing.</p>;
  return (
    <div class="log log-plain" ref={area} tabIndex={0} role="log" aria-label="Output" aria-live="off">
      {droppedBytes > 0 && (
        <p class="faint">{formatBytes(droppedBytes)} before this are not stored any more.</p>
      )}
      {lines.map((line) => (
        <div key={line.id} class={`log-line log-${line.stream}`}>
          <span>{line.text}</span>
        </div>
      ))}
    </div>
  );
}

type OutputState = {
  readonly lines: readonly LogLine[];
  readonly droppedBytes: number;
  readonly isRead: boolean;
  readonly error?: unknown;
};

/** Follows over a hidden tab and a restart of the daemon, from where it was. */
function useOutput(sandboxId: string, id: string, onEnd: () => void): OutputState {
  const command = useClient().sandboxes.get(sandboxId).commands.get(id);
  const [state, setState] = useState<OutputState>({ lines: [], droppedBytes: 0, isRead: false });
  useEffect(() => {
    const lines = new LogLines();
    let from = 0;
    let droppedBytes = 0;
    let isDue = false;
    // A character may be in two chunks.
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    const show = (): void => {
      isDue = false;
      setState({ lines: lines.all, droppedBytes, isRead: true });
    };
    return whileVisible(async (signal) => {
      // A command that writes nothing is not being loaded.
      const silent = setTimeout(show, 500);
      try {
        for await (const chunk of command.output({ from, signal })) {
          from = chunk.seq + 1;
          droppedBytes += chunk.droppedBytes;
          const { stream } = chunk;
          const text = decoders[stream].decode(chunk.data, { stream: true });
          lines.push({ source: 'exec', stream, text, time_ms: 0 });
          if (!isDue) requestAnimationFrame(show);
          isDue = true;
        }
        show();
        onEnd();
      } catch (error) {
        if (!signal.aborted && !endIfRefused(error))
          setState({ lines: [], droppedBytes, isRead: true, error });
      } finally {
        clearTimeout(silent);
      }
    });
  }, [sandboxId, id]);
  return state;
}

export function Outcome({ command: { state, result } }: { readonly command: CommandInfo }) {
  if (state === 'running') return <span class="tag tag-good">running</span>;
  const { exit_code: code, signal, timed_out: isTimedOut, oom_killed: isOutOfMemory } = result ?? {};
  const text = isTimedOut ? 'timed out' : isOutOfMemory ? 'out of memory' : (signal ?? `exit ${code ?? '?'}`);
  return <span class={`tag tag-${code === 0 ? 'plain' : 'bad'}`}>{toVisible(text)}</span>;
}

/** Of `sh -c …` only the line. */
export function toLine({ cmd, cmd_truncated }: CommandInfo): string {
  const [program, flag, line] = cmd;
  const isLine = cmd.length === 3 && flag === '-c' && (program === 'sh' || program === 'bash');
  return toVisible(`${isLine ? line : cmd.join(' ')}${cmd_truncated ? '…' : ''}`);
}
