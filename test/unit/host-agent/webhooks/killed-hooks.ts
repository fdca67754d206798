// The webhook part of a daemon until it is killed: events of four sandboxes, numbered after those on disk.
// usage: node killed-hooks.ts directory events
import { join } from 'node:path';
import { pino } from 'pino';
import { Journal } from '../../../../host-agent/src/events/journal.ts';
import type { StoredEvent } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { Dispatcher, WebhookRegistry } from '../../../../host-agent/src/webhooks/index.ts';

const SANDBOXES = 4;
const [dir = '', count = '0'] = process.argv.slice(2);
const store = await Store.open(join(dir, 'state.lmdb'));
const log = pino({ level: 'silent' });
const journal = await Journal.open<StoredEvent>(store, { keepMs: 1e9, maxBytes: 2 ** 24, log });
const registry = new WebhookRegistry(store);
const dispatcher = new Dispatcher({ registry, journal, log, firstWaitMs: 5, pollMs: 20 });
process.stdout.write('begun\n');
const end = journal.last + Number(count);
while (journal.last < end) {
  const at = journal.last;
  await journal.append({ kind: 'hung', sandbox: `s${at % SANDBOXES}`, reason: `${at}`, atMs: Date.now() });
}
const timer = setInterval(() => undefined, 1000);
process.once('SIGTERM', async () => {
  await dispatcher.stop();
  await journal.close();
  await store.close();
  clearInterval(timer);
});
