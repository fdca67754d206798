// The whole engine with VMMs in this process: their command lines, and whether guests run.
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { BootOptions, EngineContext, VmPaths } from '../../../../../host-agent/src/engines/engine.ts';
import { hostCpu } from '../../../../../host-agent/src/engines/host-facts.ts';
import { QEMU } from '../../../../../host-agent/src/engines/qemu/control.ts';
import {
  bootQemu,
  listFirmware,
  QemuEngine,
  type QemuSetup,
  restoreQemu,
} from '../../../../../host-agent/src/engines/qemu/index.ts';
import type { SealedMemories } from '../../../../../host-agent/src/engines/qemu/sealed-memory.ts';
import { hashText } from '../../../../../host-agent/src/engines/trial.ts';
import { readUids } from '../../../../../host-agent/src/lib/proc.ts';
import { HELPERS } from '../../../../support/helper-programs.ts';
import { MadeJail, type MadeQemu } from '../../../../support/made-qemu.ts';
import { argumentsOf } from '../../../../support/made-vmm.ts';
import { until } from '../../../../support/until.ts';

const SAVED = { memoryPath: '/nowhere/memory', statePath: '/dev/zero' };

function setUp(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'qe-'));
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => {
    clearInterval(alive);
    rmSync(dir, { recursive: true, force: true });
  });
  const program = join(dir, 'qemu');
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (text) => void lines.push(JSON.parse(text)) });
  const write = (path: string, script: string) =>
    writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  write(program, 'echo "QEMU emulator version 9.1.2 (Debian)"');
  for (const name of ['kernel', 'initramfs', 'root']) writeFileSync(join(dir, name), name);
  const makePaths = (name: string): VmPaths => {
    const paths = { dir: join(dir, name), socketDir: join(dir, `${name}-run`) };
    for (const path of Object.values(paths)) mkdirSync(path);
    return paths;
  };
  const optionsOf = (name: string): BootOptions => {
    const paths = makePaths(name);
    writeFileSync(join(paths.dir, 'layer'), '');
    const root = { path: join(dir, 'root'), isReadOnly: true };
    return {
      spec: {
        vcpus: 1,
        memoryMib: 128,
        kernelPath: join(dir, 'kernel'),
        initramfsPath: join(dir, 'initramfs'),
        bootArgs: 'mine=1',
        disks: [root, { path: join(paths.dir, 'layer'), isReadOnly: false }, root],
      },
      paths,
      log,
    };
  };
  /** A held memory, and how often it was released. */
  const held = { fd: 0, released: 0 };
  const memories = {
    hold: async (path: string) => {
      if (path === '/refused') throw new Error('no room for it');
      return { fd: held.fd, origin: { path, key: 'k' }, release: () => void held.released++ };
    },
  } as Partial<SealedMemories> as SealedMemories;
  const jail = new MadeJail(t);
  const setup: QemuSetup = { program, accelerator: 'tcg', jail: jail.asJail, memories };
  const context: EngineContext = {
    program,
    forkMemory: 'auto',
    jail: jail.asJail,
    claimProgram: HELPERS.claim,
    memfdProgram: HELPERS.memfd,
    kernelPath: join(dir, 'kernel'),
    initramfsPath: join(dir, 'initramfs'),
    scratchDir: dir,
    kvmPath: '/dev/null',
    log,
  };
  return { dir, program, write, lines, setup, jail, held, optionsOf, context };
}

const after = (args: readonly string[], option: string): string[] =>
  args.filter((_, at) => args[at - 1] === option);

t.test('a guest finds in its jail what it needs, and nothing else', async (t) => {
  const { dir, setup, jail, optionsOf, program } = setUp(t);
  const options = optionsOf('one');
  const { dir: own, socketDir } = options.paths;
  const vm = await bootQemu(options, setup);
  const [cell] = jail.asked;
  t.match(cell, { program, argv0: 'qemu-system-x86_64', vcpus: 1, memoryMib: 128, descriptors: 3 });
  t.strictSame(cell?.view, {
    reads: [join(dir, 'kernel'), join(dir, 'initramfs'), join(dir, 'root')],
    writes: [socketDir, join(own, 'console.log'), join(own, 'device-state'), join(own, 'layer')],
    devices: [],
  });
  t.notOk(cell?.args.includes('-L') || cell?.args.includes('-incoming'));
  t.match(after(cell?.args ?? [], '-object'), [/^memory-backend-memfd,/]);
  t.match(after(cell?.args ?? [], '-blockdev')[1], /"direct":false/);
  t.match(
    jail.vmms[0]!.commands.find(({ execute }) => execute === 'qom-set')?.arguments.value,
    / norandmaps mine=1$/,
  );
  t.same(vm.identity.memory, { kind: 'anonymous' });
  await vm.kill();

  jail.needsDirectWrites = true;
  const memoryPath = join(dir, 'memory');
  const kept = await bootQemu({ ...optionsOf('two'), memoryPath }, { ...setup, accelerator: 'kvm' });
  const [, second] = jail.asked;
  t.same(second?.view.writes.slice(-1), [memoryPath]);
  t.same(second?.view.devices, ['/dev/kvm']);
  t.match(after(second?.args ?? [], '-object'), [
    `memory-backend-file,id=ram,size=128M,mem-path=${memoryPath},share=on`,
  ]);
  t.match(after(second?.args ?? [], '-blockdev')[1], /"direct":true/);
  t.same(after(second?.args ?? [], '-cpu'), ['host']);
  t.same(after(second?.args ?? [], '-accel'), ['kvm']);
  t.notMatch(
    jail.vmms[1]!.commands.find(({ execute }) => execute === 'qom-set')?.arguments.value,
    /norandmaps/,
  );
  t.same(kept.identity.memory, { kind: 'file', path: memoryPath });
  await kept.kill();
});

t.test('a copy inherits its state and its memory, which is let go of with it', async (t) => {
  const { dir, setup, jail, optionsOf, held } = setUp(t);
  const options = { ...optionsOf('one'), saved: SAVED };
  const vm = await restoreQemu(options, setup);
  const [cell] = jail.asked;
  t.equal(cell?.descriptors, 5);
  t.same(cell?.view.reads, [join(dir, 'root')]);
  t.same(after(cell?.args ?? [], '-incoming'), ['fd:3']);
  t.match(after(cell?.args ?? [], '-object'), [
    'memory-backend-file,id=ram,size=128M,mem-path=/dev/fd/4,share=off',
  ]);
  t.same(jail.vmms[0]!.names, [], 'it has its kernel');
  t.same(vm.identity.memory, {
    kind: 'copy-on-write',
    path: '/memfd:saved-memory',
    origin: { path: '/nowhere/memory', key: 'k' },
  });
  t.equal(held.released, 0);
  await vm.kill();
  t.equal(held.released, 1);
  jail.prepare = (vmm) => {
    vmm.on.qmp_capabilities = () => {
      throw new Error('not today');
    };
  };
  await t.rejects(restoreQemu({ ...optionsOf('two'), saved: SAVED }, setup), { message: /not today$/ });
  t.equal(held.released, 2);
  const open = readdirSync('/proc/self/fd').length;
  const refused = { ...optionsOf('three'), saved: { ...SAVED, memoryPath: '/refused' } };
  await t.rejects(restoreQemu(refused, setup), { message: 'no room for it' });
  t.equal(readdirSync('/proc/self/fd').length, open, 'its state is closed');
  t.equal(held.released, 2);
  const missing = { ...SAVED, statePath: join(dir, 'missing') };
  await t.rejects(restoreQemu({ ...optionsOf('four'), saved: missing }, setup), { code: 'ENOENT' });
});

t.test('in a jail the firmware is visible, and its path is looked up once', async (t) => {
  const { dir, setup, optionsOf, write, program, jail } = setUp(t);
  const asked = join(dir, 'asked');
  const firmware = join(dir, 'firmware');
  mkdirSync(firmware);
  const said = `/usr/bin/printf '%s\\n' 'where it is:' '${dir}/./firmware' '${dir}/missing' 'firmware'`;
  write(program, `echo "$@" >> '${asked}'; [ "$2" = help ] && exec ${said}; exit 7`);
  for (const name of ['one', 'two']) await (await bootQemu(optionsOf(name), setup)).kill();
  t.equal(readFileSync(asked, 'utf8'), '-L help\n');
  for (const { args, view } of jail.asked) {
    t.same(after(args, '-L'), [firmware]);
    t.equal(view.reads[0], firmware);
    t.equal(view.reads.length, 4);
  }
  const { jail: _jail, ...free } = setup;
  await t.rejects(bootQemu(optionsOf('three'), free), { message: /exited with code 7/ });
  t.notMatch(readFileSync(asked, 'utf8').split('\n').at(-2), / -L /, 'without one it sees that itself');
  const other = join(dir, 'other');
  write(other, 'exit 3');
  await t.rejects(listFirmware(other), { code: 3 });
});

/** VMMs whose guests count, and continue after a restore. */
function counting(jail: MadeJail): MadeQemu[] {
  let nonce = '';
  jail.prepare = (vmm, { args }) => {
    const [, path = ''] = /path=([^,]*console\.log)/.exec(args.join(' ')) ?? [];
    const count = (...counts: number[]) =>
      appendFileSync(path, counts.map((each) => `sandbox-probe: ${hashText(nonce)} ${each}.\n`).join(''));
    vmm.on['qom-set'] = ({ value }) => {
      nonce = /sandbox\.probe=(\S+)/.exec(String(value))?.[1] ?? '';
      count(1, 2, 3);
    };
    vmm.on['xen-save-devices-state'] = ({ filename }) => writeFileSync(String(filename), 'state');
    if (args.includes('-incoming')) count(4, 5);
  };
  return jail.vmms;
}

t.test('guests run where one boots, is saved, and its copy goes on', async (t) => {
  const { context, jail, lines } = setUp(t);
  counting(jail);
  const emulated = new QemuEngine(context, 'tcg');
  t.throws(() => emulated.compatibility(), { code: 'internal', message: 'this engine was not probed yet' });
  await t.rejects(emulated.boot({} as never), { message: 'this engine was not probed yet' });
  await t.rejects(emulated.restore({} as never), { message: 'this engine was not probed yet' });
  t.strictSame(await emulated.probe(), {
    isUsable: true,
    version: '9.1.2',
    detail: 'software emulation (TCG), which is not an isolation boundary',
  });
  t.same(lines, []);
  t.match(emulated, { name: 'qemu', accelerator: 'tcg', isEmulation: true, takesOtherDisks: true });
  t.ok(emulated.sharedBytes > 0, 'the next copy may come soon');
  t.strictSame(emulated.compatibility(), {
    engine: 'qemu',
    version: '9.1.2',
    accelerator: 'tcg',
    cpu: 'max,-erms,-fsrm,-smap',
    layout: '2',
  });
  const fast = new QemuEngine(context, 'kvm');
  t.match(await fast.probe(), { isUsable: true, detail: 'hardware virtualisation (KVM)' });
  t.equal(fast.isEmulation, false);
  t.match(fast.compatibility(), { accelerator: 'kvm', cpu: hostCpu() });
});

t.test('where no guest runs the reason is given, and nothing is remembered', async (t) => {
  const { context, jail, dir, write } = setUp(t);
  const reasonOf = async (more: Partial<EngineContext>, accelerator: 'tcg' | 'kvm' = 'tcg') => {
    const engine = new QemuEngine({ ...context, ...more }, accelerator);
    const probe = await engine.probe();
    t.throws(() => engine.compatibility());
    return probe.isUsable ? t.fail('it runs') : probe.reason;
  };
  t.match(
    await reasonOf({ program: '/nowhere/qemu' }),
    '/nowhere/qemu is not installed (Debian package qemu-system-x86)',
  );
  for (const forkMemory of ['copy', 'on-demand'] as const)
    t.match(
      await reasonOf({ forkMemory }),
      `its copies always copy memory on write, and fork_memory asks for ${forkMemory}`,
    );
  t.equal(await reasonOf({ kvmPath: '/nowhere/kvm' }, 'kvm'), '/nowhere/kvm is not there');
  t.same(jail.asked, []);
  jail.prepare = (vmm) => {
    vmm.on.qmp_capabilities = () => {
      throw new Error('not today');
    };
  };
  t.match(
    await reasonOf({ forkMemory: 'copy-on-write', kvmPath: '/nowhere/kvm' }),
    /^cannot start a guest: .*not today$/,
  );
  counting(jail);
  const { prepare } = jail;
  jail.prepare = (vmm, options) => {
    prepare(vmm, options);
    if (options.args.includes('-incoming')) vmm.status = 'internal-error';
  };
  t.match(await reasonOf({}), /^cannot restore a saved guest: .* cannot run any further/);
  const gone = AbortSignal.abort(new Error('enough'));
  await t.rejects(new QemuEngine(context, 'tcg').probe(gone), { message: 'enough' });
  const odd = join(dir, 'odd');
  write(odd, 'echo of no version');
  const engine = new QemuEngine({ ...context, program: odd }, 'tcg');
  t.match(await engine.fingerprint(), { version: 'unknown' });
});

t.test('its fingerprint is another when program, device or configuration are', async (t) => {
  const { context, program } = setUp(t);
  const of = (more: Partial<EngineContext>, accelerator: 'tcg' | 'kvm' = 'tcg') =>
    new QemuEngine({ ...context, ...more }, accelerator).fingerprint();
  const own = await of({});
  t.match(own, { program, path: program, version: '9.1.2', device: '', forkMemory: 'auto' });
  t.same(await of({}), own);
  t.match(await of({ program: '/nowhere/x' }), {
    program: '/nowhere/x',
    path: '/nowhere/x',
    version: 'absent',
  });
  const device = await of({}, 'kvm');
  t.match(JSON.parse(device.device ?? ''), [null, Number, Number, 0, 0]);
  t.match(await of({ kvmPath: '/nowhere/kvm' }, 'kvm'), {
    device: '["/nowhere/kvm is not there",null,null,null,null]',
  });
  chmodSync(program, 0o644);
  t.match(await of({}), { version: 'absent' });
  const { program: _program, ...usual } = context;
  t.match((await new QemuEngine(usual as EngineContext, 'tcg').fingerprint()).program, /qemu-system-x86_64$/);
});

t.test('a guest runs on an engine that got the result of an earlier probe', async (t) => {
  const { context, jail, optionsOf, dir } = setUp(t);
  const engine = new QemuEngine(context, 'tcg');
  engine.recall({ isUsable: true, version: '9.1.2', detail: '' });
  const options = optionsOf('one');
  const vm = await engine.boot(options);
  t.match(vm.identity, { engine: 'qemu', paths: options.paths });
  const { identity } = vm;
  vm.detach();
  const { pid, startTicks } = identity;
  t.same(engine.findVmms(dir), [{ pid, startTicks, socketDir: options.paths.socketDir }]);
  await until(() => readUids(pid)?.[3] === identity.jail?.uid, 'its user');
  t.equal(engine.adopt({ ...identity, startTicks: 1 }, { log: context.log }), null);
  const adopted = engine.adopt(identity, { log: context.log })!;
  t.match(await adopted.exited, { reason: /^it hides/ });
  t.same(argumentsOf(identity.pid), []);
  t.equal(await engine.explainEnd(identity), 'the VMM ended while no daemon ran');
  writeFileSync(join(options.paths.dir, 'console.log'), 'Kernel panic - not syncing: x\n');
  t.match(await engine.explainEnd(identity), /^the guest panicked/);
  t.equal(await engine.neededBytes({ memoryPath: '/nowhere', statePath: '' }), 0);
  writeFileSync(join(dir, 'memory'), Buffer.alloc(8192, 1));
  const saved = { memoryPath: join(dir, 'memory'), statePath: join(dir, 'kernel') };
  t.equal(await engine.neededBytes(saved), 8192);
  const copy = await engine.restore({ ...optionsOf('two'), saved });
  t.equal(engine.sharedBytes, 8192);
  t.equal(jail.asked.length, 2);
  await copy.kill();
  t.equal(QEMU.unbatched, 'first-thread');
});
