// The rate limit of changes of sandboxes and snapshots, and that no tenant changes images.
import t from 'tap';
import { scaled } from '../support/time-scale.ts';
import { startKeyed } from './keyed-daemon.ts';

t.setTimeout(scaled(180_000));

t.test('max_changes_per_minute bounds all keys of a tenant together', async (t) => {
  const { as, keyring } = await startKeyed(t);
  const [one, two, other] = [await as({ tenant: 'x' }), await as({ tenant: 'x' }), await as({ tenant: 'y' })];
  const { id } = await one('POST', '/sandboxes');
  const { id: theirs } = await other('POST', '/sandboxes');
  const { id: snapshot } = await one('POST', `/sandboxes/${id}/snapshot`);
  await keyring.registry.setQuota('x', { max_changes_per_minute: 5 });
  const asked = Array.from({ length: 12 }, (_, at) => {
    const path = at % 2 === 0 ? `/sandboxes/${id}` : `/snapshots/${snapshot}`;
    return (at % 3 === 0 ? one : two)('PATCH', path, { labels: { [`k${at}`]: '' } });
  });
  const answers = await Promise.all(asked);
  t.equal(answers.filter(({ status }) => status === 200).length, 5);
  for (const answer of answers.filter(({ status }) => status !== 200))
    t.match(answer, {
      status: 403,
      code: 'forbidden',
      error:
        /^the quota of tenant "x" forbids it: changes within a minute of tenant x 6 is over max_changes_per_minute 5;/,
    });
  const { labels } = await one('GET', `/sandboxes/${id}`);
  const { labels: more = {} } = await one('GET', `/snapshots/${snapshot}`);
  t.equal(Object.keys({ ...labels, ...more }).length, 5, 'a refused change changes nothing');
  t.equal((await one('PATCH', `/sandboxes/${theirs}`, {})).status, 404, 'what it does not see is not there');
  t.equal((await other('PATCH', `/sandboxes/${theirs}`, { labels: { a: '' } })).status, 200);
  t.equal((await one('POST', `/sandboxes/${id}/ports`, { port: 80 })).status, 403, 'ports count');
  t.equal(
    (await one('POST', `/sandboxes/${id}/rollback`, { snapshot_id: snapshot })).status,
    403,
    'rollbacks, too',
  );
  t.equal((await one('POST', '/sandboxes')).status, 201, 'creates have a limit of their own');
  const now = Date.now();
  t.intercept(Date, 'now', { value: () => now + 61_000 });
  t.equal((await one('PATCH', `/sandboxes/${id}`, { labels: { late: '' } })).status, 200);
});

t.test('images are changed by no key of a tenant, so they need no limit', async (t) => {
  const { as } = await startKeyed(t);
  const one = await as({ tenant: 'x' });
  t.match(await one('PATCH', '/images/nginx', { user_labels: { a: 'b' } }), { status: 403 });
});
