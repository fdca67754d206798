// Creates whose guest is over before its agent answers, against both stand-ins: they fail with the cause in one sentence,
// though every time limit is an hour away; and what happens around the pause of a save.
import { readdirSync, rmdirSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { VmmApi } from '../../host-agent/src/engines/cloud-hypervisor/api.ts';
import type { Engine } from '../../host-agent/src/engines/engine.ts';
import { bootQemu } from '../../host-agent/src/engines/qemu/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { saveGuest } from '../../host-agent/src/sandboxes/saved/save.ts';
import { Watchdog } from '../../host-agent/src/sandboxes/watchdog.ts';
import { type Creates, makeCreates, rootfsIn } from '../support/create-context.ts';
import { type FakeHost, makeFakeHost } from '../support/fake-cloud-hypervisor/host.ts';
import { makeFakeQemuHost } from '../support/fake-qemu/host.ts';
import { until } from '../support/until.ts';

t.setTimeout(200_000);
const NEVER_MS = 10 ** 9;
/** It may be over before the engine has said that it runs. */
const STAGE = '^cannot create the sandbox \\(stage \\w+\\): (the VMM did not start: )?';
const KVM_DUMP = 'KVM internal error. Suberror: 1\nemulation failure\nEAX=00000000 EBX=00000000\n';

type Case = {
  readonly name: string;
  readonly prepare: () => void;
  readonly signal: NodeJS.Signals;
  readonly message: RegExp;
  readonly code: string;
};

/** Each create waits for an agent that never answers until its guest is ended in some way. */
async function failInEachWay(
  t: Test,
  creates: Creates,
  logLines: readonly Record<string, unknown>[],
  cases: readonly Case[],
): Promise<void> {
  for (const { name, prepare, signal, message, code } of cases) {
    prepare();
    const failing = creates.create(name).then(
      () => undefined,
      (error: unknown) => error,
    );
    const vmm = await creates.vmmOf(name);
    process.kill(vmm.pid, signal);
    const error = await failing;
    t.ok(error instanceof AppError, name);
    t.match(error, { code, message }, name);
    t.notMatch((error as Error).message, /\n|did not answer/, 'one line, and no limit of time');
    t.match(
      logLines.find((line) => line.sandbox === name && / did not start$/.test(String(line.msg))),
      { diagnosis: /^console:.*vmm log:/s },
      'the rest is in the log',
    );
    t.equal(creates.context.records.get(name), undefined);
    t.same(readdirSync(join(creates.context.directories.dataDir, 'sandboxes')), []);
    t.same(readdirSync(creates.context.directories.runDir), []);
  }
}

t.test('a create on QEMU whose guest is over fails with the cause', async (t) => {
  const host = makeFakeQemuHost(t);
  host.set({ isGuestDeaf: true });
  const engine = {
    name: 'qemu',
    boot: (options) => bootQemu(options, host.setup),
    compatibility: () => ({}),
  } as Pick<Engine, 'name' | 'boot' | 'compatibility'> as Engine;
  const creates = await makeCreates(t, host.dir, engine, host.log);
  await failInEachWay(t, creates, host.logLines, [
    {
      name: 'internal-error',
      prepare: () => host.set({ endsIn: 'internal-error', log: KVM_DUMP }),
      signal: 'SIGUSR1',
      message: new RegExp(`${STAGE}the guest cannot run any further .*emulation failure\\)$`),
      code: 'internal',
    },
    {
      name: 'guest-panicked',
      // What a guest writes on its console does not make the host's disk full.
      prepare: () =>
        host.set({
          endsIn: 'guest-panicked',
          lastWords: 'Kernel panic - not syncing: No space left on device\n',
        }),
      signal: 'SIGUSR1',
      message: new RegExp(`${STAGE}the guest panicked \\(.*no space left`),
      code: 'internal',
    },
    {
      name: 'shutdown',
      prepare: () => host.set({ endsIn: 'shutdown', lastWords: '' }),
      signal: 'SIGUSR1',
      message: new RegExp(`${STAGE}the guest powered off$`),
      code: 'internal',
    },
    {
      name: 'io-error',
      prepare: () => host.set({ endsIn: 'io-error', reason: 'No space left on device' }),
      signal: 'SIGUSR1',
      message: new RegExp(
        `${STAGE}the host's disk does not take the guest's writes \\(no space left on device\\)$`,
      ),
      code: 'exhausted',
    },
    {
      name: 'killed',
      prepare: () => undefined,
      signal: 'SIGKILL',
      message: new RegExp(`${STAGE}the VMM was killed by SIGKILL$`),
      code: 'internal',
    },
  ]);
});

async function cloudHypervisor(t: Test): Promise<{ host: FakeHost; creates: Creates }> {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const { log } = host.bootOptions(host.makePaths('log-only'));
  const creates = await makeCreates(t, host.dir, engine, log);
  rmdirSync(join(host.runDir, 'log-only'));
  return { host, creates };
}

t.test('a create on Cloud Hypervisor whose guest is over fails with the cause', async (t) => {
  const { host, creates } = await cloudHypervisor(t);
  host.set({ guestUpMs: NEVER_MS, endMs: NEVER_MS });
  await failInEachWay(t, creates, host.logLines, [
    {
      name: 'panic',
      prepare: () => host.set({ hasPvpanic: true }),
      signal: 'SIGUSR2',
      message: new RegExp(`${STAGE}the guest panicked$`),
      code: 'internal',
    },
    {
      name: 'panic-and-reset',
      prepare: () => host.set({ hasPvpanic: false }),
      signal: 'SIGUSR2',
      message: new RegExp(`${STAGE}the guest panicked \\(kernel panic.*\\)$`),
      code: 'internal',
    },
    {
      name: 'reset',
      prepare: () => undefined,
      signal: 'SIGUSR1',
      message: new RegExp(`${STAGE}the guest reset itself$`),
      code: 'internal',
    },
    {
      name: 'ended',
      prepare: () => undefined,
      signal: 'SIGTERM',
      message: new RegExp(`${STAGE}the guest powered off$`),
      code: 'internal',
    },
  ]);
});

t.test('a save blocks the channel only while the guest is paused', async (t) => {
  const { host, creates } = await cloudHypervisor(t);
  const { vm, guest, paths, remove } = await creates.create('one').then((sandbox) => ({
    ...sandbox.awake,
    paths: sandbox.paths,
    remove: () => sandbox.remove(),
  }));
  const use = (): Promise<unknown> =>
    guest.setIdentity({
      sandboxId: 's',
      hostname: 'h',
      machineId: 'm',
      entropy: Buffer.alloc(32),
      unixTimeUs: 1,
    });
  let isAnswered = false;
  const { saved } = await saveGuest({
    dir: join(host.dir, 'saved'),
    // What an engine does before and after the pause, which may take long.
    vm: {
      ...vm,
      save: async (options) => {
        await use();
        const afterPause = (): void => {
          t.equal(isAnswered, false, 'what was sent in the pause waits for its end');
          options.afterPause?.();
        };
        const written = await vm.save({ ...options, afterPause });
        await use();
        await until(() => isAnswered);
        return written;
      },
    },
    guest,
    layerPath: paths.layerPath,
    onPaused: () => void use().then(() => (isAnswered = true)),
    manifest: {
      compatibility: {},
      kernelDigest: 'k',
      options: {
        rootfs: rootfsIn(host.dir),
        vcpus: 1,
        memoryMib: 4,
        diskBytes: 64 * 2 ** 20,
        timeoutS: 0,
        bootArgs: '',
      },
    },
  });
  t.equal(saved.manifest.needsResync, false, 'the guest had read everything when it was saved');
  // One that cannot be saved is let go on, too.
  host.fault({ at: 'vm.snapshot', kind: 'refuse' });
  const again = {
    dir: join(host.dir, 'again'),
    vm,
    guest,
    layerPath: paths.layerPath,
    manifest: saved.manifest,
  };
  await t.rejects(saveGuest(again), { message: /cannot save the VM/ });
  await use();
  await remove();
});

t.test('a guest that hangs, and a VMM that does, are named while the other answers', async (t) => {
  const { host, creates } = await cloudHypervisor(t);
  const sandbox = await creates.create('one');
  sandbox.becomeReady();
  const { log } = host.bootOptions(sandbox.paths);
  const { events } = creates.context;
  using _watching = new Watchdog({ timeoutMs: 600, sandboxes: () => [sandbox], events, log });
  const said = (msg: string): boolean => host.logLines.some((line) => line.msg === msg);
  // Its vCPUs stand and its VMM says that it runs: a pause for which the disks did not finish.
  const api = new VmmApi(join(sandbox.paths.socketDir, 'api.sock'));
  const far = { timeoutMs: 100_000 };
  host.fault({ at: 'vm.pause', kind: 'half' });
  await t.rejects(api.put('vm.pause', undefined, far));
  host.fault();
  await until(() => sandbox.awake.hang !== undefined);
  t.throws(() => sandbox.assertAlive(), {
    code: 'guest_unreachable',
    message: /hangs: the guest agent has not answered for 1 s/,
  });
  await api.put('vm.pause', undefined, far);
  await api.put('vm.resume', undefined, far);
  await until(() => sandbox.awake.hang === undefined);
  t.ok(said('the guest agent answers again'));
  await appendFile(
    join(sandbox.paths.dir, 'console.log'),
    '[  245.10] INFO: task sync:512 blocked for more than 120 seconds.\r\n[  245.11]       Not tainted\r\n',
  );
  await until(() => said('a task of a guest is blocked'));
  const line = host.logLines.find(({ kernel }) => kernel !== undefined);
  t.match(line, { kernel: /^\[ +245.10\] INFO: task sync:512 blocked for more than 120 seconds\.$/ });
  // From here on it answers nothing any more.
  host.fault({ at: 'vmm.ping', kind: 'hang' });
  // Two polls, each of which may wait for 5 s.
  await until(() => said('the VMM of a sandbox does not answer'), 'the second poll', 60_000);
  t.equal(sandbox.awake.hang, undefined, 'its guest can be used');
  sandbox.assertAlive();
  await sandbox.remove();
});
