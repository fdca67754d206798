// Resources of a sandbox: acquisition, failures, and their messages.
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { ColdBootOptions, Vm, VmExit } from '../../../../host-agent/src/engines/engine.ts';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { agent, explainExit } from '../../../../host-agent/src/sandboxes/resources/agent.ts';
import { pinRootfs } from '../../../../host-agent/src/sandboxes/resources/files.ts';
import type { SandboxContext } from '../../../../host-agent/src/sandboxes/resources/resource.ts';
import { vmm } from '../../../../host-agent/src/sandboxes/resources/vmm.ts';
import { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { MemoryEngine } from '../../../support/memory-host/engine.ts';
import { oneEngine } from '../../../support/one-engine.ts';
import { scratch } from '../../../support/saved-guests.ts';
import { until } from '../../../support/until.ts';

const PLAIN = { templateBudgetBytes: 0 };

/** Lets timers pass at once, and returns how long they were to wait. */
function passTimers(t: Test): number[] {
  const waits: number[] = [];
  const { setImmediate } = globalThis;
  const timer = { unref: () => timer };
  t.intercept(globalThis, 'setTimeout', {
    value: (callback: (...args: unknown[]) => void, ms: number, ...args: unknown[]) => {
      waits.push(ms);
      setImmediate(() => setImmediate(() => callback(...args)));
      return timer;
    },
  });
  return waits;
}

t.test(
  'a VM that lost its channel gets a moment to report its exit, and an exiting one gets longer',
  async (t) => {
    const waits = passTimers(t);
    const never = new Promise<VmExit>(() => undefined);
    const exit: VmExit = { reason: 'the guest panicked', exitCode: null, signal: null };
    t.equal(await explainExit({ exited: Promise.resolve(exit), isEnding: async () => false }), exit.reason);
    t.same(waits.splice(0), [300]);
    t.equal(await explainExit({ exited: never, isEnding: async () => false }), undefined);
    t.same(waits.splice(0), [300]);
    t.equal(await explainExit({ exited: never, isEnding: async () => true }), undefined);
    t.same(waits.splice(0), [300, 10_000]);
    const { promise: exited, resolve } = Promise.withResolvers<VmExit>();
    const isEnding = async () => {
      resolve(exit);
      return true;
    };
    t.equal(await explainExit({ exited, isEnding }), exit.reason);
  },
);

t.test('a starting daemon waits for guests, within bounds, if their VM runs', async (t) => {
  const waits: number[] = [];
  let answers = false;
  t.intercept(Guest.prototype, 'adopt', {
    value: async (ms: number) => {
      waits.push(ms);
      return answers;
    },
  });
  const adopt = async (watchdogTimeoutMs: number, vm?: Partial<Vm>) => {
    const lines: string[] = [];
    const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
    const handles: SandboxContext['handles'] = { vm: vm as Vm };
    const context = { settings: { watchdogTimeoutMs } };
    const site = { context, handles, log, record: { incarnation: 'x' }, paths: { dir: '/nowhere' } };
    await agent.adopt?.(site as unknown as SandboxContext);
    return { lines, guest: handles.guest };
  };
  t.match((await adopt(0, {})).lines, ['a guest agent does not answer after the restart; retrying']);
  await adopt(15_003, {});
  t.same(waits.splice(0), [5000, 5001]);
  answers = true;
  t.same((await adopt(60_000, {})).lines, []);
  t.same(waits.splice(0), [20_000]);
  const exit: VmExit = { reason: 'it ended', exitCode: null, signal: null };
  t.ok((await adopt(0, { exit })).guest, 'one whose VM ended has a connection that is never made');
  t.equal((await adopt(0)).guest, undefined);
  t.same(waits, []);
  const context = { directories: { runDir: '/nowhere' } };
  const record = { isReady: true };
  const incomplete = { id: 'sbx', context, record, handles: {} } as unknown as SandboxContext;
  t.throws(() => new Sandbox(incomplete), { message: 'a sandbox that is not paused has a VM and a guest' });
});

t.test('a VM that is paused by a full disk while it starts fails the create with the reason', async (t) => {
  const home = await makeHome(t);
  class StandingEngine extends MemoryEngine {
    override async boot(options: ColdBootOptions): Promise<Vm> {
      const vm = await super.boot(options);
      options.onIoPause?.('the host’s disk is full');
      return vm;
    }
  }
  const engine = new StandingEngine(home.host);
  home.host.agentFaults = { deafFrom: 1 };
  const { manager, host } = await startMemoryDaemon(t, { ...PLAIN, home, engines: oneEngine(engine) });
  await t.rejects(manager.create({}), {
    code: 'exhausted',
    message: 'cannot create the sandbox (stage agent): the host’s disk is full',
    details: { stage: 'agent', retryAfterS: 5 },
  });
  t.equal(host.running.length, 0);
});

t.test('a resumed guest gets its clock set', async (t) => {
  const home = await makeHome(t);
  let resume: () => void = () => undefined;
  class ResumingEngine extends MemoryEngine {
    override boot(options: ColdBootOptions): Promise<Vm> {
      resume = () => options.onResumed?.();
      return super.boot(options);
    }
  }
  const engines = oneEngine(new ResumingEngine(home.host));
  const { manager, host } = await startMemoryDaemon(t, { ...PLAIN, home, engines });
  const { id } = await manager.create({});
  const { clocks } = host.of(id).agent;
  const before = clocks.length;
  resume();
  await until(() => clocks.length > before, 'its clock to be set');
  t.equal(clocks.length, before + 1);
});

t.test('a timeout names what took too long, and that it was a timeout', async (t) => {
  const bootTimeoutMs = 100;
  const late = (stage: string, message: RegExp) => ({
    code: 'internal',
    message,
    details: { stage, isTimeout: true },
  });
  const { manager, host } = await startMemoryDaemon(t, { ...PLAIN, bootTimeoutMs });
  // A timer that started later ends later.
  host.onBoot = () => new Promise((resolve) => setTimeout(resolve, bootTimeoutMs + 50));
  await t.rejects(manager.create({}), late('boot', /stage boot\): the VM did not start within 100 ms$/));
  host.onBoot = () => undefined;
  host.agentFaults = { deafFrom: 1 };
  const silent = /the guest agent did not answer within 100 ms$/;
  await t.rejects(manager.create({}), late('agent', silent));
  const faults = {
    reach: (point: string) => {
      if (point === 'start.agent') hanging.host.running[0]!.agent.isHanging = true;
    },
  };
  const hanging = await startMemoryDaemon(t, { ...PLAIN, bootTimeoutMs, faults });
  const options = { service: { cmd: ['x'] } } as unknown as Parameters<typeof manager.create>[0];
  await t.rejects(hanging.manager.create(options), { message: /stage service/ });
  t.equal(hanging.host.running.length, 0);
});

t.test('a failed start names its stage in one line, and a full disk has its own error', async (t) => {
  const { manager, host, home, lines } = await startMemoryDaemon(t, PLAIN);
  let error: unknown = new Error('it broke\nwith a long story');
  host.onBoot = () => {
    throw error;
  };
  await t.rejects(manager.create({}), {
    code: 'internal',
    message: 'cannot create the sandbox (stage boot): it broke',
    details: { stage: 'boot' },
  });
  error = new AppError('upstream', 'nobody is there', { stage: 'far away', retryAfterS: 9 });
  await t.rejects(manager.create({}), {
    code: 'upstream',
    message: 'cannot create the sandbox (stage far away): nobody is there',
    details: { stage: 'far away', retryAfterS: 9 },
  });
  error = Object.assign(new Error('write failed'), { code: 'ENOSPC' });
  await t.rejects(manager.create({}), {
    code: 'exhausted',
    message: /cannot create the sandbox \(stage boot\): no space left/,
  });
  t.same(readdirSync(join(home.dataDir, 'logs')), [], 'they were never visible');
  t.notOk(lines.some(({ msg }) => msg === 'a sandbox did not start'));
  host.onBoot = () => undefined;
  host.agentFaults = { refuses: 'identity' };
  await t.rejects(manager.create({}), { message: /stage agent\): .*identity was refused/ });
  t.match(
    lines.find(({ msg }) => msg === 'a sandbox did not start'),
    { diagnosis: 'console: (empty)' },
  );
});

t.test(
  'the timeout starts when clients can use the sandbox, and the event has the times of the start',
  async (t) => {
    const { manager, host, happened, store } = await startMemoryDaemon(t, PLAIN);
    let bootedAt = 0;
    host.onBoot = async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      bootedAt = Date.now();
    };
    const startedAt = performance.now();
    const caller = { kind: 'key', id: 'i', key: 'k', tenant: 'red' } as const;
    const info = await manager.create({}, undefined, { principal: caller });
    const tookMs = performance.now() - startedAt;
    t.ok(info.createdAt.getTime() >= bootedAt);
    const record = store.table<SandboxRecord>('sandboxes').get(info.id);
    t.match(record, { isReady: true, kernelDigest: 'kernel', owner: { key: 'k', tenant: 'red' } });
    const received = happened.find(({ kind }) => kind === 'created');
    const { times } = received as Extract<typeof received, { times: unknown }>;
    t.same(Object.keys(times).sort(), [
      'agentMs',
      'authorityMs',
      'bootMs',
      'diskMs',
      'logMs',
      'networkMs',
      'totalMs',
    ]);
    for (const [name, ms] of Object.entries(times)) t.ok(ms >= 0 && ms <= tookMs + 1, `${name} ${ms}`);
    t.ok((times.bootMs ?? 0) >= 4 && times.totalMs! >= times.bootMs!);
    t.match(received, { origin: 'boot' });
  },
);

t.test(
  'a pinned file stays when its other names are removed, and a missing one is not an error',
  async (t) => {
    const dir = await scratch(t);
    const path = join(dir, 'bake');
    writeFileSync(path, 'content');
    for (const name of ['one', 'two']) mkdirSync(join(dir, name));
    await pinRootfs(join(dir, 'one'), path);
    await pinRootfs(join(dir, 'one'), path);
    t.equal(statSync(path).nlink, 2);
    rmSync(path);
    t.equal(readFileSync(join(dir, 'one/rootfs.ext4'), 'utf8'), 'content');
    await pinRootfs(join(dir, 'two'), path);
    t.same(readdirSync(join(dir, 'two')), []);
    await t.rejects(pinRootfs(join(dir, 'one/rootfs.ext4'), join(dir, 'one/rootfs.ext4')), {
      code: 'ENOTDIR',
    });
  },
);

t.test('each resource names its stage, and is released also when it was never acquired', async (t) => {
  const saved = { kind: 'saved' } as Parameters<typeof vmm.stage>[0];
  t.same([vmm.stage(saved), vmm.stage({ kind: 'boot' })], ['restore', 'boot']);
  const { manager, host } = await startMemoryDaemon(t, { ...PLAIN, logs: undefined });
  const { id } = await manager.create({});
  const exited = new Promise((resolve) => {
    manager
      .get(id)
      .exec({ cmd: ['true'], env: {}, timeout_s: 0 }, { output: () => undefined, exit: resolve });
  });
  t.match(await exited, { exitCode: 0 }, 'a daemon that keeps no logs');
  host.of(id).standstill = 'the host’s disk is full';
  t.throws(() => manager.get(id).files(), {
    code: 'guest_unreachable',
    message: `sandbox ${id} hangs: the host’s disk is full; wait, or delete it`,
  });
  manager.get(id).assertNotEnded();
  await manager.delete(id);
});
