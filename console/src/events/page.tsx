// The events of all sandboxes and snapshots: the stored ones, and new ones as they occur.
import { useState } from 'preact/hooks';
import { useStore } from '../live/store.ts';
import { useInventory } from '../live/use-inventory.ts';
import { Empty, Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { useShortcuts } from '../shell/shortcuts.ts';
import { describe, EventList } from './list.tsx';

export function EventsPage() {
  const inventory = useInventory();
  const events = useStore(inventory.events);
  const past = useLoaded('past', async (signal) => {
    await inventory.readPast(undefined, signal);
    return true;
  });
  const [text, setText] = useState('');
  useShortcuts([
    { keys: '/', what: 'Search', run: () => document.querySelector<HTMLElement>('.search')?.focus() },
  ]);
  const shown = events.filter((event) =>
    [event.kind, event.name, event.sandbox, describe(event)]
      .join(' ')
      .toLowerCase()
      .includes(text.toLowerCase()),
  );
  return (
    <section class="page" aria-labelledby="title">
      <header class="page-head">
        <h1 id="title">Events</h1>
        <p class="page-count" role="status">
          {past.value === undefined ? '' : `${shown.length} of the newest ${events.length}`}
        </p>
      </header>
      <search class="toolbar">
        <input
          type="search"
          class="search"
          placeholder="Search kind, name, id"
          aria-label="Search"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
          onKeyDown={({ key, currentTarget }) => key === 'Escape' && currentTarget.blur()}
        />
      </search>
      {past.error !== undefined && <Problem error={past.error} onRetry={past.reload} />}
      {past.error === undefined && past.value === undefined && <Loading what="events" />}
      {past.value !== undefined && events.length === 0 && (
        <Empty title="No events yet">
          <p>Each create, fork, pause, snapshot and delete appears here at once.</p>
        </Empty>
      )}
      <EventList events={shown} hasSandbox />
    </section>
  );
}
