// The end of a sandbox: who still uses it learns why, and by then nobody sees it any more.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { Vm, VmExit } from '../../../host-agent/src/engines/engine.ts';
import type { ExecOutcome } from '../../../host-agent/src/guest/exec-types.ts';
import { NO_FAULTS } from '../../../host-agent/src/lib/faults.ts';
import { LogStore } from '../../../host-agent/src/logs/index.ts';
import { sandboxPaths } from '../../../host-agent/src/sandboxes/paths.ts';
import type { SandboxRecord } from '../../../host-agent/src/sandboxes/record.ts';
import { Sandbox } from '../../../host-agent/src/sandboxes/sandbox.ts';
import type { Table } from '../../../host-agent/src/store/store.ts';
import { openSilent } from './support/silent-guest.ts';

const ID = 'sbx_0123456789abc';
const logger = pino({ level: 'silent' });

/** A sandbox whose VM is nothing but its end. */
async function makeSandbox(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'sandboxd-end-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const { promise: exited, resolve } = Promise.withResolvers<VmExit>();
  const { guest } = await openSilent(async () => (await exited).reason);
  let killError: Error | undefined = new Error('the VMM does not end');
  const vm = {
    exited,
    kill: async () => {
      if (killError !== undefined) throw killError;
      resolve({ reason: 'the VMM was killed', exitCode: null, signal: 'SIGKILL' });
    },
    detach: () => undefined,
  } as unknown as Vm;
  const logs = new LogStore({ dir: join(dir, 'logs'), maxBytes: 2 ** 24, retentionMs: 1e9, log: logger });
  await logs.start(new Set([ID]));
  const sandboxLog = await logs.open(ID);
  const records = {
    get: () => undefined,
    remove: async () => undefined,
  } as unknown as Table<SandboxRecord>;
  const record = { options: {}, profile: { env: {} }, createdAtMs: 0 } as unknown as SandboxRecord;
  const paths = sandboxPaths({ dataDir: dir, runDir: join(dir, 'run') }, ID);
  const parts = {
    id: ID,
    record,
    paths,
    vm,
    guest,
    records,
    logs,
    sandboxLog,
    faults: NO_FAULTS,
    log: logger,
  };
  const allowKill = () => {
    killError = undefined;
  };
  return { sandbox: new Sandbox(parts), logs, allowKill };
}

for (const [why, error] of [
  [undefined, /: sandbox sbx_0123456789abc was deleted$/],
  [': its timeout_s has passed', /was deleted: its timeout_s has passed$/],
] as const) {
  t.test(`a command in a sandbox that is deleted${why ?? ''}`, async (t) => {
    const { sandbox, logs, allowKill } = await makeSandbox(t);
    allowKill();
    const seen = Promise.withResolvers<{ outcome: ExecOutcome; isGone: boolean }>();
    const exit = (outcome: ExecOutcome) => seen.resolve({ outcome, isGone: sandbox.isGone });
    sandbox.exec(
      { cmd: ['sleep', '9'], env: {}, timeoutMs: 0, hasStdin: false },
      { output: () => undefined, exit },
    );
    t.notOk(sandbox.isGone);
    await sandbox.remove(why);
    const { outcome, isGone } = await seen.promise;
    t.match(outcome, { exitCode: -1, error });
    t.ok(isGone, 'nobody sees the sandbox when its last frame comes');
    const page = await logs.read(ID, { since: 0 });
    t.same(
      page?.records.map(({ text }) => text),
      ['exec: sleep 9', 'exit -1'],
    );
  });
}

t.test('a sandbox whose delete failed is seen again, and can be deleted', async (t) => {
  const { sandbox, allowKill } = await makeSandbox(t);
  await t.rejects(sandbox.remove(), { message: /does not end/ });
  t.notOk(sandbox.isGone);
  t.throws(() => sandbox.assertAlive(), { code: 'not_found' });
  allowKill();
  await sandbox.remove();
  t.ok(sandbox.isGone);
});
