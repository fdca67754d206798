// The frame of every page: navigation, the state of the connection, the list of keys.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { AccessPage } from '../access/page.tsx';
import { EventsPage } from '../events/page.tsx';
import { HostPage } from '../host/page.tsx';
import { ImagesPage } from '../images/page.tsx';
import { Inventory } from '../live/inventory.ts';
import { useStore } from '../live/store.ts';
import { InventoryProvider } from '../live/use-inventory.ts';
import { Button } from '../parts/button.tsx';
import { Confirm, Dialog } from '../parts/dialog.tsx';
import { Notices } from '../parts/notices.tsx';
import { Empty } from '../parts/states.tsx';
import { SandboxPage } from '../sandbox/page.tsx';
import { SandboxesPage } from '../sandboxes/page.tsx';
import { leave as forgetKey } from '../session/session.ts';
import { type OpenSession, SessionProvider } from '../session/use-session.ts';
import { SnapshotsPage } from '../snapshots/page.tsx';
import { discard, leave, leaving } from './leaving.ts';
import { type Route, toHash } from './route.ts';
import { navigate, route } from './router.ts';
import { activeShortcuts, useShortcuts } from './shortcuts.ts';

const PAGES = [
  { path: 'sandboxes', title: 'Sandboxes', key: 's' },
  { path: 'snapshots', title: 'Snapshots', key: 'n' },
  { path: 'images', title: 'Images', key: 'i' },
  { path: 'events', title: 'Events', key: 'e' },
  { path: 'access', title: 'Keys', key: 'k' },
  { path: 'host', title: 'Host', key: 'h' },
] as const;

export function Shell({ session }: { readonly session: OpenSession }) {
  const inventory = useMemo(() => new Inventory(session.client), [session.client]);
  useEffect(() => inventory.open(), [inventory]);
  const at = useStore(route);
  const [isHelpOpen, setHelpOpen] = useState(false);
  useShortcuts([
    { keys: '?', what: 'Show these keys', run: () => setHelpOpen(true) },
    ...PAGES.map(({ path, title, key }) => ({
      keys: `g ${key}`,
      what: `Go to ${title}`,
      run: () => navigate([path]),
    })),
  ]);
  const [current = 'sandboxes'] = at.path;
  return (
    <SessionProvider value={session}>
      <InventoryProvider value={inventory}>
        <button type="button" class="skip" onClick={focusMain}>
          Skip to the page
        </button>
        <div class="shell">
          <header class="side">
            <a class="brand" href={toHash(['sandboxes'])}>
              sandboxd
            </a>
            <nav aria-label="Pages">
              {PAGES.map(({ path, title }) => (
                <a key={path} href={toHash([path])} aria-current={current === path ? 'page' : undefined}>
                  {title}
                </a>
              ))}
            </nav>
            <div class="side-foot">
              <ConnectionState inventory={inventory} />
              <Button kind="quiet" onClick={() => setHelpOpen(true)} label="Keyboard shortcuts">
                <kbd>?</kbd>
              </Button>
              {session.hasKey && (
                <Button kind="quiet" onClick={() => leave(forgetKey)}>
                  Forget key
                </Button>
              )}
            </div>
          </header>
          <div class="content">
            <LostBanner inventory={inventory} />
            <main id="main" tabIndex={-1}>
              <Page at={at} />
            </main>
          </div>
        </div>
        <Leaving />
        {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
        <Notices />
      </InventoryProvider>
    </SessionProvider>
  );
}

function Page({ at }: { readonly at: Route }) {
  const [page = 'sandboxes', id] = at.path;
  useEffect(() => {
    const title = PAGES.find(({ path }) => path === page)?.title;
    document.title = [id, title, 'sandboxd'].filter(Boolean).join(' · ');
  }, [page, id]);
  if (page === 'sandboxes' && id !== undefined) return <SandboxPage key={id} id={id} at={at} />;
  if (page === 'sandboxes') return <SandboxesPage at={at} />;
  if (page === 'snapshots') return <SnapshotsPage />;
  if (page === 'images') return <ImagesPage />;
  if (page === 'events') return <EventsPage />;
  if (page === 'access') return <AccessPage />;
  if (page === 'host') return <HostPage />;
  return (
    <Empty title="There is no such page">
      <a href={toHash(['sandboxes'])}>Open the sandboxes</a>
    </Empty>
  );
}

const STATES = {
  connecting: 'Connecting',
  live: 'Live',
  polling: 'Every 5 s',
  lost: 'No connection',
  refused: 'Not permitted',
} as const;

function ConnectionState({ inventory }: { readonly inventory: Inventory }) {
  const { state } = useStore(inventory.connection);
  return (
    <span class={`connection connection-${state}`} role="status">
      {STATES[state]}
    </span>
  );
}

function LostBanner({ inventory }: { readonly inventory: Inventory }) {
  const connection = useStore(inventory.connection);
  if (connection.state !== 'lost') return null;
  return (
    <div class="banner" role="alert">
      <strong>No connection to the daemon.</strong> What you see may be out of date; the page continues by
      itself.
      <span class="banner-detail untrusted">{connection.problem}</span>
    </div>
  );
}

/** Asks before changes are lost. */
function Leaving() {
  const go = useStore(leaving);
  if (go === undefined) return null;
  return (
    <Confirm
      title="Discard the changes?"
      action="Discard"
      onConfirm={() => discard(go)}
      onClose={() => leaving.set(undefined)}
    >
      <p>The open file has changes that are not saved.</p>
    </Confirm>
  );
}

function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="keys">
        {activeShortcuts().map(({ keys, what }) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function focusMain(): void {
  document.querySelector<HTMLElement>('#main')?.focus();
}
