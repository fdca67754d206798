// The commands of a sandbox: those that run and those that ended within the last hour, their output, and new ones.
import type { CommandInfo, SandboxInfo } from '@sandboxd/client';
import { useState } from 'preact/hooks';
import { useInventory } from '../../live/use-inventory.ts';
import { ActionButton } from '../../parts/button.tsx';
import { formatSeconds, formatTime } from '../../parts/format.ts';
import { attempt } from '../../parts/notices.tsx';
import { Empty, Loading, Problem } from '../../parts/states.tsx';
import { useNow } from '../../parts/use-now.ts';
import { usePolled } from '../../parts/use-polled.ts';
import { useClient } from '../../session/use-session.ts';
import type { Route } from '../../shell/route.ts';
import { replaceQuery } from '../../shell/router.ts';
import { useShortcuts } from '../../shell/shortcuts.ts';
import { CommandOutput, Outcome, toLine } from './command-output.tsx';

/** No event says that a command has started or ended. */
const ROUND_MS = 3000;
/** The newest ones. */
const MAX_COMMANDS = 200;

export function CommandsTab({ info, at }: { readonly info: SandboxInfo; readonly at: Route }) {
  const sandbox = useClient().sandboxes.get(info.id);
  const inventory = useInventory();
  if (info.state !== 'paused') return <CommandList id={info.id} at={at} />;
  return (
    <Empty title="This sandbox is paused">
      <p>Its commands are known to its guest, which has to run for that.</p>
      <ActionButton
        kind="primary"
        needs="exec"
        onClick={() => attempt(async () => inventory.put(await sandbox.resume()))}
      >
        Resume it
      </ActionButton>
    </Empty>
  );
}

function CommandList({ id, at }: { readonly id: string; readonly at: Route }) {
  const { commands } = useClient().sandboxes.get(id);
  const { value, error, reload } = usePolled(`commands ${id}`, ROUND_MS, (signal) =>
    commands.list({ signal }),
  );
  const nowMs = useNow();
  const list = (value ?? []).slice(-MAX_COMMANDS).reverse();
  const opened = at.query.get('command');
  const shown = list.find((each) => each.id === opened) ?? list[0];
  const open = (command: string): void => replaceQuery(new URLSearchParams({ tab: 'commands', command }));
  return (
    <div class="commands">
      <StartForm
        onStart={async (line) => {
          const command = await attempt(() => commands.start(['sh', '-c', line]));
          if (command !== undefined) open(command.id);
          reload();
          return command !== undefined;
        }}
      />
      {error !== undefined && <Problem error={error} onRetry={reload} />}
      {error === undefined && value === undefined && <Loading what="commands" />}
      {value?.length === 0 && (
        <Empty title="No command runs">
          <p>
            Start one above. Those of clients appear here too, and stay for an hour after their end. Their
            whole output is in the log.
          </p>
        </Empty>
      )}
      {shown !== undefined && (
        <div class="commands-both">
          <ol class="command-list" aria-label="Commands">
            {list.map((command) => (
              <li key={command.id}>
                <button
                  type="button"
                  aria-current={command.id === shown.id ? 'true' : undefined}
                  onClick={() => open(command.id)}
                >
                  <Outcome command={command} />
                  <code>
                    <bdi>{toLine(command)}</bdi>
                  </code>
                  <span class="faint">{toTimes(command, nowMs)}</span>
                </button>
              </li>
            ))}
          </ol>
          <CommandOutput key={shown.id} sandboxId={id} command={shown} onChange={reload} />
        </div>
      )}
    </div>
  );
}

function StartForm({ onStart }: { readonly onStart: (line: string) => Promise<boolean> }) {
  const [line, setLine] = useState('');
  const [isBusy, setBusy] = useState(false);
  useShortcuts([
    {
      keys: '/',
      what: 'Type a command',
      run: () => document.querySelector<HTMLElement>('.command-field')?.focus(),
    },
  ]);
  const start = async (): Promise<void> => {
    if (line.trim() === '' || isBusy) return;
    setBusy(true);
    if (await onStart(line)) setLine('');
    setBusy(false);
  };
  return (
    <form
      class="toolbar"
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
    >
      <input
        class="search command-field"
        aria-label="Command line for sh"
        placeholder="make test"
        spellcheck={false}
        autocomplete="off"
        value={line}
        onInput={({ currentTarget }) => setLine(currentTarget.value)}
        onKeyDown={({ key, currentTarget }) => key === 'Escape' && currentTarget.blur()}
      />
      <ActionButton needs="exec" kind="primary" isDisabled={isBusy} onClick={start}>
        {isBusy ? 'Starting…' : 'Start'}
      </ActionButton>
      <span class="hint">It goes on without this page.</span>
    </form>
  );
}

function toTimes({ started_at, exited_at }: CommandInfo, nowMs: number): string {
  const endMs = exited_at === undefined ? nowMs : Date.parse(exited_at);
  return `${formatTime(started_at)} · ${formatSeconds((endMs - Date.parse(started_at)) / 1000)}`;
}
