// Starts of guests and forks: the VMM is a process that only waits, and the test answers on its control socket.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { buildVmConfig } from '../../../../../host-agent/src/engines/cloud-hypervisor/vm-config.ts';
import { makeHost, stateOf } from '../../../../support/made-host.ts';
import type { Answer } from '../../../../support/made-vmm-api.ts';

const MIB = 2 ** 20;
const UNKNOWN = { reasons: ['Failed', 'unknown variant `CopyOnWrite`'] };
const usable = (version: string, hasLandlock = true, refusedModes: unknown[] = []) =>
  ({ isUsable: true, version, detail: '', memo: JSON.stringify({ hasLandlock, refusedModes }) }) as const;

t.test('a guest is booted by a VMM that finds what it needs only while it starts', async (t) => {
  const { engine, prepare, keep, dir } = await makeHost(t);
  const { paths, files, options, answers, asked } = prepare();
  await t.rejects(engine.boot(options), { code: 'internal', message: 'this engine was not probed yet' });
  engine.recall(usable('53.0', false));
  // Files that a killed VMM left.
  mkdirSync(join(files.startDir, 'old'), { recursive: true });
  for (const path of files.socketPaths) writeFileSync(path, '');
  answers['vm.create'] = () => {
    t.equal(readlinkSync(files.startKernelPath), join(dir, 'kernel'));
    t.equal(statSync(files.startDir).mode & 0o777, 0o700);
    t.same(readdirSync(files.startDir), ['kernel']);
    t.same(readdirSync(paths.socketDir).sort(), ['api.sock', 'pid']);
    writeFileSync(files.earlyConsolePath, 'early');
    return undefined;
  };
  answers['vm.boot'] = () => {
    t.same(readdirSync(files.startDir), ['kernel']);
    t.equal(readFileSync(files.consolePath, 'utf8'), 'early');
    return undefined;
  };
  const vm = keep(await engine.boot(options));
  t.notOk(existsSync(files.startDir));
  t.same(asked(), [
    {
      endpoint: 'vm.create',
      body: buildVmConfig({ spec: options.spec, files, hasLandlock: false, isDirect: false }),
    },
    { endpoint: 'vm.boot', body: undefined },
  ]);
  t.match(vm.identity, { engine: 'cloud-hypervisor', memory: { kind: 'anonymous' }, paths });
  const [args = ''] = [readFileSync(`/proc/${vm.identity.pid}/cmdline`, 'latin1')];
  t.ok(
    args.endsWith(
      `--api-socket\0path=${files.controlSocketPath}\0--event-monitor\0path=${files.eventsPath}\0--seccomp\0true\0`,
    ),
  );
  t.match(engine.findVmms(dir), [{ pid: vm.identity.pid, socketDir: paths.socketDir }]);
  t.same(engine.findVmms(join(dir, 'own-0')), []);
});

t.test('of a start that fails nothing is left', async (t) => {
  const { engine, prepare, gone } = await makeHost(t);
  engine.recall(usable('53.0'));
  const { files, options, answers, asked } = prepare();
  answers['vm.create'] = ({ landlock_enable }) => {
    t.equal(landlock_enable, true);
    writeFileSync(files.earlyConsolePath, '');
    return undefined;
  };
  answers['vm.boot'] = () => ({ reasons: ['no'] });
  await t.rejects(engine.boot(options), { message: /vm\.boot: no/ });
  t.notOk(existsSync(files.startDir));
  t.ok(gone());
  t.equal(asked().length, 2);
  const other = prepare();
  await t.rejects(engine.boot({ ...other.options, signal: AbortSignal.abort(new Error('enough')) }), {
    message: 'enough',
  });
  t.same(readdirSync(other.paths.dir), ['layer'], 'what was cancelled is not begun');
});

/** The files in the directory that a fork is restored from. */
const laidOut = (startDir: string) => ({
  names: readdirSync(startDir).sort(),
  memory: lstatSync(join(startDir, 'memory-ranges')).ino,
  config: JSON.parse(readFileSync(join(startDir, 'config.json'), 'utf8')),
  state: readFileSync(join(startDir, 'state.json'), 'utf8'),
});

t.test('a copy is restored with its own files, and goes on when all is done', async (t) => {
  const { engine, prepare, keep, makeSaved } = await makeHost(t);
  engine.recall(usable('53.0', true, [{ name: 'CopyOnWrite', why: 'x' }]));
  const saved = makeSaved();
  const { paths, files, options, answers, asked } = prepare();
  let found: ReturnType<typeof laidOut> | undefined;
  answers['vm.restore'] = () => {
    writeFileSync(files.earlyConsolePath, 'early');
    found = laidOut(files.startDir);
    return undefined;
  };
  const net = { namespace: '/proc/self/ns/net', mac: '02:00:00:00:00:02', tap: 'tap0' };
  const spec = { ...options.spec, net };
  const vm = keep(await engine.restore({ ...options, spec, saved }));
  t.same(asked(), [
    {
      endpoint: 'vm.restore',
      body: { source_url: `file://${files.startDir}`, memory_restore_mode: 'Copy', resume: false },
    },
    {
      endpoint: 'vm.add-net',
      body: { id: 'net0', tap: 'tap0', mac: net.mac, num_queues: 2, queue_size: 256 },
    },
    { endpoint: 'vm.resume', body: undefined },
  ]);
  t.same(found?.names, ['config.json', 'console', 'memory-ranges', 'state.json']);
  t.equal(found?.memory, statSync(saved.memoryPath).ino);
  t.match(found?.config, {
    memory: {
      size: 0,
      zones: [{ size: 4 * MIB, file: join(files.startDir, 'memory-ranges'), shared: false }],
    },
    disks: [{}, { path: join(paths.dir, 'layer') }],
    ...{ landlock_enable: true, pvpanic: false, vsock: { socket: files.vsockPath } },
  });
  t.match(found?.state, '\\"memory_ranges\\":{\\"data\\":[]}');
  const { snapshots } = JSON.parse(found?.state ?? '');
  const disk = snapshots['device-manager'].snapshots.disk1.snapshot_data.state;
  t.match(JSON.parse(disk), { disk_nsectors: 5, config: { capacity: 5 } });
  t.notOk(existsSync(files.startDir));
  t.equal(readFileSync(files.consolePath, 'utf8'), 'early');
  t.equal(vm.exit, undefined);
});

t.test(
  'of the ways for its memory the next is tried, and a device that was saved is not added',
  async (t) => {
    const { engine, prepare, keep, makeSaved } = await makeHost(t);
    engine.recall(usable('54.0'));
    const saved = makeSaved([{ id: 'net0', tap: 'old' }]);
    const { files, options, answers, asked } = prepare();
    const found: ReturnType<typeof laidOut>[] = [];
    const refusals: Answer[] = [
      UNKNOWN,
      { reasons: ['no zones'] },
      { reasons: ['On-demand restore failed'] },
    ];
    answers['vm.restore'] = () => {
      writeFileSync(files.earlyConsolePath, 'early');
      found.push(laidOut(files.startDir));
      t.notOk(existsSync(files.vsockPath));
      writeFileSync(files.vsockPath, '');
      return refusals.shift();
    };
    const spec = { ...options.spec, net: { namespace: '/proc/self/ns/net', mac: 'x', tap: 'tap0' } };
    keep(await engine.restore({ ...options, spec, saved }));
    t.same(
      asked().map(({ endpoint, body }) => body?.memory_restore_mode ?? endpoint),
      ['CopyOnWrite', 'Copy', 'OnDemand', 'Copy', 'vm.resume'],
    );
    t.same(
      found.map(({ config }) => config.memory),
      [4 * MIB, 0, 4 * MIB, 4 * MIB].map((size) => ({
        ...{ size, shared: false },
        ...(size === 0 && {
          zones: [{ id: 'mem0', size: 4 * MIB, file: join(files.startDir, 'memory-ranges'), shared: false }],
        }),
      })),
    );
    for (const { state } of found)
      t.equal(state, stateOf(4 * MIB), 'of a version that is not known it is left alone');
    t.match(found.at(-1)?.config.net, [{ tap: 'tap0' }]);
  },
);

t.test('a copy that is cancelled never runs', async (t) => {
  const { engine, prepare, makeSaved, gone } = await makeHost(t);
  engine.recall(usable('53.0'));
  const { files, options, answers, asked } = prepare();
  const cancel = new AbortController();
  answers['vm.restore'] = () => {
    writeFileSync(files.earlyConsolePath, '');
    const { state, config } = laidOut(files.startDir);
    t.match(state, '{\\"data\\":[{\\"gpa\\":0}]}', 'what the VMM reads itself is left to it');
    t.match(config.memory, { size: 4 * MIB });
    setImmediate(() => cancel.abort(new Error('enough')));
    return undefined;
  };
  await t.rejects(engine.restore({ ...options, saved: makeSaved(), signal: cancel.signal }), {
    message: /enough/,
  });
  t.notMatch(
    asked().map(({ endpoint }) => endpoint),
    ['vm.restore', 'vm.resume'],
  );
  t.ok(gone());
});

t.test('a jail shows a VMM what it needs, and no more', async (t) => {
  const views: unknown[] = [];
  const enter = async ({ view }: { readonly view: unknown }) => {
    views.push(view);
    throw new Error('a fault of the test');
  };
  const { engine, prepare, makeSaved, dir } = await makeHost(t, {
    jail: { needsDirectWrites: true, enter } as never,
  });
  engine.recall(usable('53.0'));
  const { paths, files, options } = prepare();
  const saved = makeSaved();
  for (const start of [() => engine.boot(options), () => engine.restore({ ...options, saved })])
    await t.rejects(start(), { message: /a fault of the test/ });
  const layer = join(paths.dir, 'layer');
  const view = {
    holds: [paths.dir, files.startDir],
    writes: [files.eventsPath, files.earlyConsolePath, paths.socketDir, layer],
    devices: ['/dev/kvm', ...['/dev/userfaultfd'].filter(existsSync)],
  };
  t.same(views, [
    { ...view, reads: [join(dir, 'initramfs'), join(dir, 'kernel'), join(dir, 'root')] },
    { ...view, reads: [join(dir, 'initramfs'), saved.memoryPath, join(dir, 'root')] },
  ]);
  t.same(readdirSync(paths.dir), ['layer']);
});
