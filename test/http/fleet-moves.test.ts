// A node that is cordoned: its sandboxes go on at other hosts of the fleet, or wait, and none is lost.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ask, type Fleet } from '../support/fleet/fleet.ts';
import { startMovingFleet } from '../support/fleet/moves.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(240_000));

const podsOf = (fleet: Fleet) => fleet.api.objects.list('pods');

t.test('the sandboxes of a cordoned node go on at another, and back', async (t) => {
  const { fleet, host, cordon } = await startMovingFleet(t);
  const a = await host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300 });
  const made = await Promise.all(
    [1, 2, 3].map((n) => ask(url, 'POST', '/sandboxes', { name: `worker-${n}`, labels: { n: `${n}` } })),
  );
  const ids = made.map(({ body }) => body.id).sort();
  const b = await host('h1');
  await fleet.ready(2);
  let [from, to] = [a, b];
  for (const round of ['there', 'back']) {
    const answers: string[] = [];
    let isOver = false;
    const ask1 = async (): Promise<void> => {
      while (!isOver) {
        const run = { cmd: ['echo', 'x'] };
        const path = `/sandboxes/${ids[0]}/exec`;
        const { status, headers } = await ask(url, 'POST', path, run, { accept: 'application/json' });
        answers.push(status === 503 && headers.get('retry-after') !== null ? 'later' : `${status}`);
        await sleep(50);
      }
    };
    const asking = ask1();
    cordon(from.name, true);
    await until(
      () => to.daemon.manager.list().length === 3 && from.daemon.manager.list().length === 0,
      'all are on the other host',
    );
    await until(() => podsOf(fleet).length === 3, 'one pod for each');
    isOver = true;
    await asking;
    t.comment(`${round}: ${JSON.stringify(answers.toSorted())}`);
    t.same(
      to.daemon.manager
        .list()
        .map(({ id }) => id)
        .sort(),
      ids,
    );
    t.ok(answers.every((each) => ['200', 'later'].includes(each)));
    await until(() => to.daemon.manager.list().every(({ state }) => state === 'running'), 'they run');
    t.match(await ask(url, 'GET', `/sandboxes/${ids[1]}`), {
      status: 200,
      body: { id: ids[1], state: 'running' },
    });
    const listed = await ask(url, 'GET', '/sandboxes');
    t.equal((listed.body.sandboxes as unknown[]).length, 3);
    t.equal((await ask(url, 'POST', '/sandboxes', {})).status, 201, 'creates go to the other host');
    const extra = to.daemon.manager.list().find(({ id }) => !ids.includes(id));
    t.equal((await ask(url, 'DELETE', `/sandboxes/${extra?.id}`)).status, 204);
    await until(() => podsOf(fleet).length === 3, 'the pods of the three');
    cordon(from.name, false);
    await until(() => !from.daemon.manager.moves.drain.isOn, 'it is open again');
    [from, to] = [to, from];
  }
  for (const id of ids) t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  await until(() => podsOf(fleet).length === 0, 'no pod');
});

t.test('without another host they wait, and run again when the node is uncordoned', async (t) => {
  const { fleet, host, cordon } = await startMovingFleet(t);
  const a = await host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300, unboundMs: 1000 });
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  cordon('h0', true);
  await until(() => a.daemon.manager.moves.drain.progress().state === 'drained', 'drained');
  await until(() => podsOf(fleet).length === 2, 'a pod that waits');
  t.match(await ask(url, 'GET', `/sandboxes/${body.id}`), { status: 200, body: { state: 'paused' } });
  const refused = await ask(url, 'POST', `/sandboxes/${body.id}/resume`, {});
  t.match(refused, { status: 503, body: { error: /moves to another host/ } });
  t.ok(refused.headers.get('retry-after'));
  cordon('h0', false);
  await until(() => a.daemon.manager.list()[0]?.state === 'running', 'it runs');
  await until(() => podsOf(fleet).length === 1, 'one pod');
  t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`)).status, 200);
});

t.test('what one host cannot take, another does', async (t) => {
  const { fleet, host, cordon } = await startMovingFleet(t);
  const a = await host('h0');
  await fleet.ready(1);
  const gateway = await fleet.gateway({ sweepMs: 300, unboundMs: 1000 });
  const { url } = gateway;
  const { body } = await ask(url, 'POST', '/sandboxes', { memory_mib: 512 });
  const limits = { vcpus: 1, memoryMib: 64, diskBytes: 2 ** 30, sandboxes: 500, fork: 8 };
  const small = await host('h1', { limits });
  await fleet.ready(2);
  cordon('h0', true);
  await until(() => podsOf(fleet).some(({ status }) => status?.reason === 'NotTaken'), 'refused once');
  const c = await host('h2');
  await until(() => c.daemon.manager.list()[0]?.id === body.id, 'at the third host');
  await until(() => podsOf(fleet).length === 1 && a.daemon.manager.list().length === 0, 'one pod');
  t.same(small.daemon.manager.list(), []);
  await until(() => podsOf(fleet)[0]?.status?.phase === 'Running', 'its place is in use');
  await until(() => gateway.map.find(body.id)?.isMoving !== true, 'the gateway knows');
  t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`)).status, 200);
});
