// The probe of this engine and the use of its result; the test acts as the VMM.
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { vmmFiles } from '../../../../../host-agent/src/engines/cloud-hypervisor/files.ts';
import { CloudHypervisorEngine } from '../../../../../host-agent/src/engines/cloud-hypervisor/index.ts';
import { landlockObstacle } from '../../../../../host-agent/src/engines/cloud-hypervisor/probe.ts';
import type { UsableEngine } from '../../../../../host-agent/src/engines/engine.ts';
import { hostCpu } from '../../../../../host-agent/src/engines/host-facts.ts';
import { hashText } from '../../../../../host-agent/src/engines/trial.ts';
import { makeHost, stateOf } from '../../../../support/made-host.ts';
import { type Answer, type MadeVmm, serveVmm } from '../../../../support/made-vmm-api.ts';
import { until } from '../../../../support/until.ts';

const MIB = 2 ** 20;
const UNKNOWN = { reasons: ['Failed', 'unknown variant `x`'] };
const CREATED = { reasons: ['Error from API', 'VM is already created'] };
const obstacle = landlockObstacle();
const confined = obstacle === undefined ? 'Landlock on' : `no Landlock: ${obstacle}`;
const VIRTUAL = 'hardware virtualisation (KVM); copies get their memory by';

type Body = Record<string, unknown>;
type Play = {
  /** Answers to restore requests of a VMM that already has a guest; a VMM without one restores it. */
  readonly learn?: (mode: unknown) => Answer;
  readonly restore?: (mode: unknown) => Answer;
  readonly create?: (body: Body) => Answer;
};

/**
 * Acts as all VMMs that are started in the directory: their guests count, and their forks continue. Returns the
 * requests.
 */
function play(
  t: Test,
  scratchDir: string,
  plays: Play,
): { readonly asked: [endpoint: string, body?: Body][] } {
  const asked: [endpoint: string, body?: Body][] = [];
  const seen = new Set<string>();
  const start = async (pidPath: string): Promise<void> => {
    const dir = dirname(pidPath);
    const files = vmmFiles({ dir, socketDir: dir });
    const vmm: MadeVmm = await serveVmm(t, files.controlSocketPath, Number(readFileSync(pidPath, 'latin1')));
    let created: Body | undefined;
    const count = (text: string, from: number): void => {
      const nonce = /sandbox\.probe=(\w+)/.exec(text)?.[1] ?? '';
      const lines = [0, 1, 2, 3].map((at) => `sandbox-probe: ${hashText(nonce)} ${from + at}.\n`);
      writeFileSync(files.consolePath, lines.join(''));
    };
    let nonceText = '';
    const answers: MadeVmm['answers'] = {
      'vmm.ping': () => ({ version: '53.0', pid: Number(readFileSync(pidPath, 'latin1')) }),
      'vm.create': (body) => {
        asked.push(['vm.create', body]);
        created = body;
        writeFileSync(files.earlyConsolePath, '');
        return plays.create?.(body);
      },
      'vm.boot': () => {
        count(JSON.stringify(created), 1);
        return undefined;
      },
      'vm.snapshot': ({ destination_url: url }) => {
        const to = new URL(String(url)).pathname;
        writeFileSync(join(to, 'config.json'), JSON.stringify(created));
        writeFileSync(join(to, 'state.json'), stateOf(128 * MIB));
        writeFileSync(join(to, 'memory-ranges'), '');
        truncateSync(join(to, 'memory-ranges'), 128 * MIB);
        return undefined;
      },
      'vm.restore': (body) => {
        asked.push(['vm.restore', body]);
        const { memory_restore_mode: mode } = body;
        if (created !== undefined) return plays.learn?.(mode) ?? CREATED;
        writeFileSync(files.earlyConsolePath, '');
        nonceText = readFileSync(join(files.startDir, 'config.json'), 'utf8');
        return plays.restore?.(mode);
      },
      'vm.resume': () => {
        if (created === undefined) count(nonceText, 10);
        return undefined;
      },
    };
    Object.assign(vmm.answers, answers);
  };
  const looking = setInterval(() => {
    for (const path of globSync(`${scratchDir}/*/*/pid`)) {
      if (!seen.has(path)) void start(path);
      seen.add(path);
    }
  }, 5);
  t.teardown(() => clearInterval(looking));
  return { asked };
}

t.test('a host on which a guest and its copy run has this engine, and remembers how', async (t) => {
  const { engine, scratchDir, context, gone } = await makeHost(t);
  const learn = (mode: unknown) => (mode === 'CopyOnWrite' ? UNKNOWN : CREATED);
  const { asked } = play(t, scratchDir, { learn });
  t.match(engine, { name: 'cloud-hypervisor', accelerator: 'kvm', isEmulation: false });
  t.equal(engine.takesOtherDisks, false);
  t.throws(() => engine.compatibility(), { code: 'internal', message: 'this engine was not probed yet' });
  const probe = (await engine.probe()) as UsableEngine;
  const why = 'this version does not have it';
  t.match(probe, {
    ...{ isUsable: true, version: '53.0' },
    detail: `${VIRTUAL} MappedFile (CopyOnWrite: ${why}); ${confined}`,
  });
  t.same(JSON.parse(probe.memo ?? ''), {
    hasLandlock: obstacle === undefined,
    refusedModes: [{ name: 'CopyOnWrite', why }],
  });
  t.match(
    asked.map(([endpoint, body]) => [endpoint, body?.memory_restore_mode]),
    [['vm.create'], ['vm.restore', 'CopyOnWrite'], ['vm.restore', 'Copy'], ['vm.restore', 'Copy']],
  );
  t.match(asked[1]?.[1]?.source_url, /^file:\/\/.*\/s\/start$/);
  t.equal(asked[1]?.[1]?.resume, false);
  t.equal(engine.takesOtherDisks, true);
  const compatibility = { engine: 'cloud-hypervisor', version: '53.0', cpu: hostCpu(), layout: '1' };
  t.same(engine.compatibility(), compatibility);
  t.ok(gone());
  t.same(readdirSync(scratchDir), []);
  const later = new CloudHypervisorEngine(context);
  later.recall(probe);
  t.same([later.takesOtherDisks, later.compatibility()], [true, compatibility]);
  later.recall({ ...probe, version: '54.0' });
  t.equal(later.takesOtherDisks, false);
  for (const memo of [
    '{}',
    '{"hasLandlock":1,"refusedModes":[]}',
    '{"hasLandlock":true,"refusedModes":[{}]}',
  ])
    t.throws(() => later.recall({ ...probe, memo }), memo);
  t.throws(() => later.recall({ isUsable: true, version: '53.0', detail: '' }));
});

t.test('where the kernel cannot confine the VMM it runs without', async (t) => {
  const { engine, scratchDir } = await makeHost(t);
  const reason = 'Cannot apply LandLock';
  const create = ({ landlock_enable: isAsked }: Body): Answer =>
    isAsked === true ? { reasons: [reason] } : undefined;
  const { asked } = play(t, scratchDir, { create, learn: () => CREATED });
  const probe = (await engine.probe()) as UsableEngine;
  const confinement = obstacle ?? `cannot start a guest: the VMM did not start: vm.create: ${reason}`;
  t.equal(probe.detail, `${VIRTUAL} CopyOnWrite; no Landlock: ${confinement}`);
  t.match(JSON.parse(probe.memo ?? ''), { hasLandlock: false });
  t.equal(asked.filter(([endpoint]) => endpoint === 'vm.create').length, obstacle === undefined ? 2 : 1);
});

t.test('why a host has it not', async (t) => {
  const failing = async (more: Parameters<typeof makeHost>[1], plays: Play) => {
    const host = await makeHost(t, more);
    const { asked } = play(t, host.scratchDir, plays);
    const probe = await host.engine.probe();
    t.throws(() => host.engine.compatibility(), { message: 'this engine was not probed yet' });
    return { ...probe, creates: asked.filter(([endpoint]) => endpoint === 'vm.create').length };
  };
  const create = (): Answer => ({ reasons: ['no'] });
  const reason = 'cannot start a guest: the VMM did not start: vm.create: no';
  t.same(await failing({}, { create }), { isUsable: false, reason, creates: 1 });
  const absent = { kvmPath: '/absent' };
  t.match(await failing(absent, { create }), { reason: `/absent is not there; ${reason}` });
  t.match(await failing({ forkMemory: 'on-demand' }, { learn: () => UNKNOWN }), {
    ...{ isUsable: false, reason: /^no memory mode works: OnDemand: this version does not have it$/ },
  });
  t.match(await failing({ program: '/absent' }, {}), {
    ...{
      isUsable: false,
      reason: '/absent is not installed; docs/install.md says how to get it',
      creates: 0,
    },
  });
  const { engine } = await makeHost(t);
  await t.rejects(engine.probe(AbortSignal.abort(new Error('enough'))), { message: 'enough' });
});

t.test('what a probe depends on is the program, the device and what is asked for', async (t) => {
  const { engine, program, context } = await makeHost(t, { forkMemory: 'copy' });
  const facts = await engine.fingerprint();
  t.match(facts, { program, path: realpathSync(program), version: '53.0', forkMemory: 'copy' });
  t.match(facts.device, /^\[null,\d+,/);
  const other = new CloudHypervisorEngine({ ...context, program: '/absent', kvmPath: '/absent' });
  t.match(await other.fingerprint(), {
    ...{ program: '/absent', version: '/absent is not installed; docs/install.md says how to get it' },
    device: /^\["\/absent is not there"/,
  });
});

t.test('a daemon that finds a VMM of before takes it over, and what was left of a save goes', async (t) => {
  const { engine, prepare, keep } = await makeHost(t);
  engine.recall({
    isUsable: true,
    version: '53.0',
    detail: '',
    memo: '{"hasLandlock":false,"refusedModes":[]}',
  });
  const { paths, files, options, answers, asked } = prepare();
  answers['vm.create'] = () => void writeFileSync(files.earlyConsolePath, '');
  answers['vm.info'] = () => ({ state: 'Running' });
  const vm = keep(await engine.boot(options));
  // A VMM that answers must have been started; the socket of this one belongs to the test.
  await until(() =>
    readFileSync(`/proc/${vm.identity.pid}/cmdline`, 'latin1').startsWith('cloud-hypervisor'),
  );
  mkdirSync(join(paths.dir, 'save-x'));
  const limited: unknown[] = [];
  const jail = { limitDisk: async (of: unknown) => void limited.push(of) } as never;
  const identity = { ...vm.identity, jail: { uid: process.getuid?.() ?? 0, cgroup: '/sys/fs/none' } };
  for (const [own, expected] of [
    [vm.identity, []],
    [identity, [identity.jail]],
  ] as const) {
    const daemon = new CloudHypervisorEngine({ ...(await makeHost(t)).context, jail });
    mkdirSync(join(paths.dir, 'save-x'), { recursive: true });
    const adopted = daemon.adopt(own, { log: pino({ level: 'silent' }) });
    t.equal(adopted?.identity.pid, vm.identity.pid);
    await until(() => !existsSync(join(paths.dir, 'save-x')));
    await until(() => limited.length === expected.length);
    t.same(limited, expected);
    adopted?.detach();
  }
  t.ok(asked().some(({ endpoint }) => endpoint === 'vm.info'));
  await vm.kill();
  t.equal(engine.adopt(vm.identity, { log: pino({ level: 'silent' }) }), null);
  t.equal(await engine.explainEnd(vm.identity), 'the VMM ended while no daemon ran');
  writeFileSync(
    files.eventsPath,
    '{"source":"vm","event":"booted"}\n\n{"source":"vm","event":"rebooting"}\n\n',
  );
  t.equal(await engine.explainEnd(vm.identity), 'the guest reset itself');
});
