// The events of one sandbox.
import { EventList } from '../events/list.tsx';
import { useStore } from '../live/store.ts';
import { useInventory } from '../live/use-inventory.ts';
import { Empty, Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';

export function EventsTab({ id }: { readonly id: string }) {
  const inventory = useInventory();
  const events = useStore(inventory.events).filter(({ sandbox }) => sandbox === id);
  const past = useLoaded(`past ${id}`, async (signal) => {
    await inventory.readPast(id, signal);
    return true;
  });
  if (past.error !== undefined) return <Problem error={past.error} onRetry={past.reload} />;
  if (past.value === undefined) return <Loading what="events" />;
  if (events.length === 0) return <Empty title="No stored events of this sandbox" />;
  return <EventList events={events} hasSandbox={false} />;
}
