// Terminals of a sandbox. Each is a detached command, so that it survives this page and a restart of the daemon.
import type { CommandInfo, SandboxInfo } from '@sandboxd/client';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ActionButton, Button } from '../../parts/button.tsx';
import { toVisible } from '../../parts/format.ts';
import { attempt } from '../../parts/notices.tsx';
import { Empty, Loading, Problem } from '../../parts/states.tsx';
import { useLoaded } from '../../parts/use-loaded.ts';
import { useClient } from '../../session/use-session.ts';
import type { Note, Screen } from './screen.ts';

/** The best shell that the guest has. */
const SHELL = ['sh', '-c', 'command -v bash >/dev/null && exec bash; exec sh'];
const SIZE = { cols: 100, rows: 30 };

export function TerminalTab({ info }: { readonly info: SandboxInfo }) {
  const { commands } = useClient().sandboxes.get(info.id);
  const isPaused = info.state === 'paused';
  const { value, error, reload } = useLoaded(`terminals ${info.id} ${isPaused}`, async (signal) =>
    isPaused ? [] : (await commands.list({ signal })).filter(isTerminal),
  );
  const [opened, setOpened] = useState<string | undefined>();
  const [isStarting, setStarting] = useState(false);
  const start = async (): Promise<void> => {
    setStarting(true);
    const command = await attempt(() =>
      commands.start(SHELL, { tty: SIZE, env: { TERM: 'xterm-256color' } }),
    );
    setStarting(false);
    if (command === undefined) return;
    setOpened(command.id);
    reload();
  };
  const end = async (id: string): Promise<void> => {
    await attempt(() => commands.get(id).kill({ graceS: 1 }));
    reload();
  };
  if (error !== undefined) return <Problem error={error} onRetry={reload} />;
  if (value === undefined) return <Loading what="terminals" />;
  const shown = value.find(({ id }) => id === opened) ?? value.at(-1);
  const button = (
    <ActionButton kind="primary" needs="exec" isDisabled={isStarting} onClick={start}>
      {isStarting ? 'Opening…' : 'New terminal'}
    </ActionButton>
  );
  if (shown === undefined) {
    return (
      <Empty title="No terminal is open">
        <p>
          A terminal goes on when you leave this page, and is here when you come back.
          {isPaused && ' This sandbox is paused; a terminal resumes it.'}
        </p>
        {button}
      </Empty>
    );
  }
  return (
    <div class="terminals">
      <div class="terminal-bar">
        <div class="segments" role="group" aria-label="Terminals">
          {value.map((command) => (
            <button
              key={command.id}
              type="button"
              aria-pressed={command.id === shown.id}
              title={toVisible(command.cmd.join(' '))}
              onClick={() => setOpened(command.id)}
            >
              {toTitle(command)}
            </button>
          ))}
        </div>
        {button}
        <ActionButton needs="exec" onClick={() => end(shown.id)}>
          End it
        </ActionButton>
      </div>
      <TerminalView key={shown.id} sandboxId={info.id} id={shown.id} />
    </div>
  );
}

function TerminalView({ sandboxId, id }: { readonly sandboxId: string; readonly id: string }) {
  const client = useClient();
  const element = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen | undefined>(undefined);
  const [note, setNote] = useState<Note | undefined>({ text: 'Opening…' });
  useEffect(() => {
    let isLeft = false;
    void attempt(async () => {
      const { Screen } = await import('./screen.ts');
      if (isLeft || element.current === null) return;
      const command = client.sandboxes.get(sandboxId).commands.get(id);
      screen.current = new Screen(element.current, command, setNote);
      screen.current.focus();
    });
    return () => {
      isLeft = true;
      screen.current?.close();
    };
  }, [id]);
  return (
    <div class="terminal-frame">
      <div class="terminal-screen" ref={element} />
      {note !== undefined && (
        <div class="terminal-note" role="status">
          {note.text}{' '}
          {note.canTakeOver && <Button onClick={() => screen.current?.takeOver()}>Take over</Button>}
        </div>
      )}
    </div>
  );
}

function isTerminal({ tty, state, detached }: CommandInfo): boolean {
  return tty !== undefined && detached && state === 'running';
}

function toTitle({ cmd, pid }: CommandInfo): string {
  const name = cmd[0] === 'sh' && cmd[1] === '-c' ? 'shell' : toVisible(cmd[0]?.split('/').at(-1) ?? '');
  return `${name.slice(0, 24)} ${pid ?? ''}`;
}
