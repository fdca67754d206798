// What only the snapshot store has, where the store is slow or fails in between.
import t from 'tap';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import { newId } from '../../../../../host-agent/src/lib/ids.ts';
import { type Offer, Offers, type OffersDeps } from '../../../../../host-agent/src/sandboxes/moves/offers.ts';
import { scaled } from '../../../../support/time-scale.ts';

t.setTimeout(scaled(60_000));

const { signal } = new AbortController();
const place = { departure: '0'.repeat(32), tenant: 'acme', vcpus: 1, memoryMib: 64 };

function prepare(parked: object, store: object = {}) {
  const events: object[] = [];
  const warnings: object[] = [];
  const deps = {
    store: { parked, ...store },
    context: { directories: {}, events: { emit: (event: object) => events.push(event) } },
    stopping: () => signal,
    log: { warn: (fields: object) => warnings.push(fields) },
  } as unknown as OffersDeps;
  return { offers: new Offers(deps), events, warnings };
}

t.test('a list that takes long keeps no single one from being found', async (t) => {
  const stop = Promise.withResolvers<void>();
  const { offers } = prepare({
    find: async () => [],
    async *list() {
      yield [];
      await stop.promise;
    },
  });
  // Limits of time keep no process.
  const timer = setInterval(() => undefined, 1000);
  t.teardown(() => clearInterval(timer));
  t.match(await offers.list(), { offers: [], problem: 'the snapshot store does not answer in time' });
  t.equal(await offers.find(newId('sbx'), signal), undefined);
  stop.resolve();
});

t.test('one that is claimed is deleted, also where the bucket then fails', async (t) => {
  const id = newId('sbx');
  const refused = new AppError('upstream', 'AccessDenied');
  const { offers, events, warnings } = prepare(
    { claimDeleted: async () => true },
    { removeManifest: () => Promise.reject(refused) },
  );
  await offers.remove({ info: { id, labels: {} }, owner: undefined, place } as unknown as Offer, signal);
  t.match(events, [{ kind: 'deleted', sandbox: id }]);
  t.match(warnings, [{ sandbox: id }]);
});
