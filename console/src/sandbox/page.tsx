// One sandbox: its state and what can be done with it, and a tab for each side of it.
import { NotFoundError, type SandboxInfo } from '@sandboxd/client';
import { useEffect, useState } from 'preact/hooks';
import { useStore } from '../live/store.ts';
import { useInventory } from '../live/use-inventory.ts';
import { ActionButton } from '../parts/button.tsx';
import { Confirm } from '../parts/dialog.tsx';
import { toVisible, toVisibleLines } from '../parts/format.ts';
import { attempt, notify } from '../parts/notices.tsx';
import { displayName, Labels, State } from '../parts/sandbox-facts.tsx';
import { Empty, Loading, Problem } from '../parts/states.tsx';
import { endIfRefused } from '../session/session.ts';
import { useClient } from '../session/use-session.ts';
import { type Route, toHash } from '../shell/route.ts';
import { navigate } from '../shell/router.ts';
import { useShortcuts } from '../shell/shortcuts.ts';
import { CommandsTab } from './commands/commands-tab.tsx';
import { EventsTab } from './events-tab.tsx';
import { FilesTab } from './files/files-tab.tsx';
import { LogsTab } from './logs-tab.tsx';
import { NetworkTab } from './network/network-tab.tsx';
import { Overview } from './overview.tsx';
import { TerminalTab } from './terminal/terminal-tab.tsx';

const TABS = ['overview', 'terminal', 'commands', 'files', 'logs', 'network', 'events'] as const;
type Tab = (typeof TABS)[number];

export function SandboxPage({ id, at }: { readonly id: string; readonly at: Route }) {
  const client = useClient();
  const inventory = useInventory();
  const listed = useStore(inventory.sandboxes)?.get(id);
  const [info, setInfo] = useState<SandboxInfo | undefined>(listed);
  const [error, setError] = useState<unknown>();
  const tab = TABS.find((each) => each === at.query.get('tab')) ?? 'overview';
  const isGone = error instanceof NotFoundError;
  // Each change of the list's entry is read again, with what lists do not show.
  useEffect(() => {
    const left = new AbortController();
    client.sandboxes
      .get(id)
      .info({ signal: left.signal })
      .then(
        (value) => {
          if (left.signal.aborted) return;
          setInfo(value);
          setError(undefined);
        },
        (problem: unknown) => {
          if (!left.signal.aborted && !endIfRefused(problem)) setError(problem);
        },
      );
    return () => left.abort();
  }, [id, listed]);
  useShortcuts(
    TABS.map((name, index) => ({
      keys: String(index + 1),
      what: `Show ${name}`,
      run: () => openTab(id, name),
    })),
  );
  if (isGone) {
    return (
      <Empty title="This sandbox does not exist any more">
        <p>
          <code>{toVisible(id)}</code> was deleted, or this key cannot see it.
        </p>
        <a href={toHash(['sandboxes'])}>All sandboxes</a>
      </Empty>
    );
  }
  if (info === undefined)
    return error === undefined ? <Loading what="the sandbox" /> : <Problem error={error} />;
  return (
    <section class="page page-full" aria-labelledby="title">
      <header class="page-head">
        <a class="up" href={toHash(['sandboxes'])} aria-label="All sandboxes">
          ←
        </a>
        <div class="heading">
          <h1 id="title">
            <bdi>{displayName(info)}</bdi>
          </h1>
          {info.name !== undefined && <code class="sub">{info.id}</code>}
        </div>
        <State state={info.state} />
        <Labels labels={info.labels} />
        <Actions info={info} />
      </header>
      {info.reason !== undefined && (
        <p class="banner" role="alert">
          <strong>{toVisible(info.reason.code)}</strong>{' '}
          <span class="untrusted">{toVisibleLines(info.reason.message)}</span>
        </p>
      )}
      <nav class="tabs" aria-label="About this sandbox">
        {TABS.map((name) => (
          <a
            key={name}
            href={toHash(['sandboxes', id], new URLSearchParams({ tab: name }))}
            aria-current={tab === name ? 'page' : undefined}
          >
            {name}
          </a>
        ))}
      </nav>
      <div class="tab">
        <TabContent tab={tab} info={info} at={at} />
      </div>
    </section>
  );
}

function TabContent({
  tab,
  info,
  at,
}: {
  readonly tab: Tab;
  readonly info: SandboxInfo;
  readonly at: Route;
}) {
  switch (tab) {
    case 'overview':
      return <Overview info={info} />;
    case 'terminal':
      return <TerminalTab info={info} />;
    case 'commands':
      return <CommandsTab info={info} at={at} />;
    case 'files':
      return <FilesTab info={info} at={at} />;
    case 'logs':
      return <LogsTab info={info} />;
    case 'network':
      return <NetworkTab info={info} />;
    case 'events':
      return <EventsTab id={info.id} />;
  }
}

function Actions({ info }: { readonly info: SandboxInfo }) {
  const sandbox = useClient().sandboxes.get(info.id);
  const inventory = useInventory();
  const [isConfirming, setConfirming] = useState(false);
  const [busy, setBusy] = useState<string | undefined>();
  const act = async (name: string, work: () => Promise<unknown>): Promise<void> => {
    setBusy(name);
    await attempt(work);
    setBusy(undefined);
  };
  const button = (name: string, needs: 'exec' | 'snapshot' | 'fork', work: () => Promise<unknown>) => (
    <ActionButton needs={needs} isDisabled={busy !== undefined} onClick={() => act(name, work)}>
      {busy === name ? `${name}…` : name}
    </ActionButton>
  );
  const remove = () =>
    attempt(async () => {
      await sandbox.delete();
      navigate(['sandboxes']);
    });
  return (
    <div class="actions">
      {info.state === 'paused'
        ? button('Resume', 'exec', async () => inventory.put(await sandbox.resume()))
        : button('Pause', 'exec', async () => inventory.put(await sandbox.pause()))}
      {button('Snapshot', 'snapshot', async () => notify(`Took ${(await sandbox.snapshot()).id}`))}
      {button('Fork', 'fork', async () => {
        const [fork] = await sandbox.fork();
        if (fork === undefined) return;
        inventory.put(await fork.info());
        navigate(['sandboxes', fork.id]);
      })}
      <ActionButton kind="danger" needs="delete" onClick={() => setConfirming(true)}>
        Delete
      </ActionButton>
      {isConfirming && (
        <Confirm
          title="Delete this sandbox?"
          action="Delete"
          onClose={() => setConfirming(false)}
          onConfirm={remove}
        >
          <p>Its memory and disk are lost. Its log and snapshots stay.</p>
        </Confirm>
      )}
    </div>
  );
}

function openTab(id: string, tab: Tab): void {
  navigate(['sandboxes', id], new URLSearchParams({ tab }));
}
