// max_paused of policies and quotas, and what a paused sandbox holds: the real manager over an engine in memory.
import t from 'tap';
import { startKeyed as start } from './keyed-daemon.ts';

type Ask = Awaited<ReturnType<Awaited<ReturnType<typeof start>>['as']>>;

/** Sandboxes of one who asks. */
async function createdBy(ask: Ask, count: number): Promise<string[]> {
  const created = await Promise.all(Array.from({ length: count }, () => ask('POST', '/sandboxes')));
  return created.map(({ id }) => id);
}

const pause = (ask: Ask, id: string | undefined) => ask('POST', `/sandboxes/${id}/pause`);

t.test('max_paused of a policy counts what the key has paused, at once as well as in turn', async (t) => {
  const { as, root, daemon } = await start(t);
  daemon.host.agentFaults = { freezes: true };
  const ask = await as({ policy: { max_paused: 1 } });
  const ids = await createdBy(ask, 3);
  const answers = await Promise.all(ids.map((id) => pause(ask, id)));
  t.same(answers.map(({ status }) => status).sort(), [200, 403, 403]);
  t.match(
    answers.find(({ status }) => status === 403)?.error,
    /paused sandboxes of this key \d is over max_paused 1/,
  );
  const paused = answers.find(({ status }) => status === 200)?.id;
  const other = ids.find((id) => id !== paused);
  t.match(await pause(ask, paused), { status: 200, state: 'paused' }, 'one that is paused stays so');
  t.match(await pause(ask, other), { status: 403 });
  const [foreign] = await createdBy(root, 1);
  t.match(await pause(root, foreign), { status: 200 }, 'another key has nothing to do with that');
  t.match(await ask('POST', `/sandboxes/${paused}/resume`), { status: 200, state: 'running' });
  t.match(await pause(ask, other), { status: 200 }, 'one that is awake makes room');
  await ask('DELETE', `/sandboxes/${other}`);
  t.match(await pause(ask, paused), { status: 200 }, 'and so does one that is gone');
});

t.test('max_paused of a quota holds for all keys of a tenant together', async (t) => {
  const { as, daemon, keyring } = await start(t);
  daemon.host.agentFaults = { freezes: true };
  const [one, two] = [await as({ tenant: 'acme' }), await as({ tenant: 'acme' })];
  const free = await as({ tenant: 'other' });
  await keyring.registry.setQuota('acme', { max_paused: 1 });
  const [[a], [b]] = [await createdBy(one, 1), await createdBy(two, 1)];
  const answers = await Promise.all([pause(one, a), pause(two, b)]);
  t.same(answers.map(({ status }) => status).sort(), [200, 403]);
  t.match(
    answers.find(({ status }) => status === 403)?.error,
    /^the quota of tenant "acme" forbids it: paused sandboxes of tenant acme 2 is over max_paused 1/,
  );
  const [c] = await createdBy(free, 1);
  t.match(await pause(free, c), { status: 200 }, 'another tenant is free');
  await keyring.registry.removeQuota('acme');
  t.match(await Promise.all([pause(one, a), pause(two, b)]), [{ status: 200 }, { status: 200 }]);
});

t.test('max_sandboxes of a key holds for what resumes, whoever wakes it', async (t) => {
  const { as, root, daemon } = await start(t);
  daemon.host.agentFaults = { freezes: true };
  const ask = await as({ policy: { max_sandboxes: 1 } });
  const [first] = await createdBy(ask, 1);
  t.match(await pause(ask, first), { status: 200 });
  const [second] = await createdBy(ask, 1);
  const refusal = { status: 403, error: /sandboxes of this key 2 is over max_sandboxes 1/ };
  t.match(await ask('POST', `/sandboxes/${first}/resume`), refusal);
  t.match(await ask('POST', `/sandboxes/${first}/exec`, { cmd: ['true'] }), refusal, 'nor does a use of it');
  t.match(await root('POST', `/sandboxes/${first}/resume`), refusal, 'nor another key');
  await ask('DELETE', `/sandboxes/${second}`);
  t.match(await ask('POST', `/sandboxes/${first}/resume`), { status: 200, state: 'running' });
});

t.test('a paused sandbox makes room for another, and resumes only where there is room again', async (t) => {
  const { as, daemon, keyring } = await start(t);
  daemon.host.agentFaults = { freezes: true };
  const ask = await as({ tenant: 'acme' });
  await keyring.registry.setQuota('acme', { max_sandboxes: 1 });
  const [first] = await createdBy(ask, 1);
  t.match(await ask('POST', '/sandboxes'), { status: 403 });
  t.match(await pause(ask, first), { status: 200 });
  const second = await ask('POST', '/sandboxes');
  t.equal(second.status, 201);
  const refusal = { status: 403, error: /sandboxes of tenant acme 2 is over max_sandboxes 1/ };
  t.match(await ask('POST', `/sandboxes/${first}/resume`), refusal);
  t.match(await ask('POST', `/sandboxes/${first}/exec`, { cmd: ['true'] }), refusal, 'nor does a use of it');
  t.match(await ask('GET', `/sandboxes/${first}`), { status: 200, state: 'paused' });
  await ask('DELETE', `/sandboxes/${second.id}`);
  t.match(await ask('POST', `/sandboxes/${first}/resume`), { status: 200, state: 'running' });
});
