// The end of a sandbox: who still uses it learns why, and by then nobody sees it any more.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { ExecOutcome } from '../../../../host-agent/src/guest/exec-types.ts';
import type { SandboxManager } from '../../../../host-agent/src/sandboxes/manager.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

/** A command that goes on for ever; resolves with its last frame, and whether its sandbox could be seen then. */
function waitIn(manager: SandboxManager, id: string): Promise<{ outcome: ExecOutcome; isSeen: boolean }> {
  return new Promise((resolve) => {
    manager.get(id).exec(
      { cmd: ['wait'], env: {}, timeout_s: 0 },
      {
        output: () => undefined,
        exit: (outcome) =>
          resolve({ outcome, isSeen: manager.list().some((info) => info.id === id) || canGet(manager, id) }),
      },
    );
  });
}

function canGet(manager: SandboxManager, id: string): boolean {
  try {
    return manager.get(id).info.id === id;
  } catch {
    return false;
  }
}

t.test('a command in a sandbox that is deleted', async (t) => {
  const { manager, logs } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const ended = waitIn(manager, id);
  await manager.delete(id);
  const { outcome, isSeen } = await ended;
  t.match(outcome, { exitCode: -1, error: new RegExp(`: sandbox ${id} was deleted$`) });
  t.notOk(isSeen, 'nobody sees the sandbox when its last frame comes');
  const page = await logs.read(id, { since: 0 });
  t.same(
    page?.records.map(({ text }) => text),
    ['exec: wait', 'exit -1'],
  );
});

t.test('a command in a sandbox whose time is over', async (t) => {
  const { manager, happened } = await startMemoryDaemon(t);
  const { id } = await manager.create({ timeoutS: 1 });
  const { outcome, isSeen } = await waitIn(manager, id);
  t.match(outcome, { exitCode: -1, error: /was deleted: its timeout_s has passed$/ });
  t.notOk(isSeen);
  await until(() => happened.some(({ kind }) => kind === 'deleted'), 'its delete');
  t.same(
    happened.slice(-2).map(({ kind }) => kind),
    ['expired', 'deleted'],
  );
});

t.test('a sandbox whose delete failed is seen again, and can be deleted', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  host.isUnkillable = true;
  await t.rejects(manager.delete(id), { message: /does not end/ });
  t.equal(manager.list().length, 1);
  t.throws(() => manager.get(id).assertAlive(), { code: 'not_found' });
  host.isUnkillable = false;
  await manager.delete(id);
  t.same(manager.list(), []);
  t.equal(host.running.length, 0);
});

t.test('a sandbox that died is not called any more', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const ended = waitIn(manager, id);
  host.of(id).end('the guest panicked');
  t.match((await ended).outcome, { exitCode: -1, error: /the guest panicked$/ });
  const { channels } = host.counts;
  // The pause before a connection is tried again is a second.
  await new Promise((resolve) => setTimeout(resolve, 1300));
  t.equal(host.counts.channels, channels);
});

t.test('a stop waits until what was being made is undone', async (t) => {
  const { manager, host, home } = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  host.onBoot = () => promise;
  const refused = t.rejects(manager.create({}), { message: 'the daemon is stopping' });
  await until(() => host.counts.boots === 1, 'the boot');
  let isStopped = false;
  const stopping = manager.stop('keep').then(() => {
    isStopped = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(isStopped, false);
  goOn();
  await stopping;
  await refused;
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), []);
  t.equal(host.running.length, 0);
});
