// Command lines, control protocol and page maps of the engines, without a VMM.
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { pino } from 'pino';
import t from 'tap';
import type { BootOptions, EngineContext, VmSpec } from '../../../../host-agent/src/engines/engine.ts';
import type { Jail } from '../../../../host-agent/src/engines/jail/jail.ts';
import { kernelCommandLine } from '../../../../host-agent/src/engines/kernel-command-line.ts';
import { changedRanges, findMapping, PAGE_BYTES } from '../../../../host-agent/src/engines/mapping.ts';
import { buildQemuArgs, qemuCommandLine } from '../../../../host-agent/src/engines/qemu/args.ts';
import { controlArgument, controlSocketOf } from '../../../../host-agent/src/engines/qemu/files.ts';
import { IoPause } from '../../../../host-agent/src/engines/qemu/io-pause.ts';
import { QmpClient, QmpError, type QmpEvent } from '../../../../host-agent/src/engines/qemu/qmp.ts';
import { isDirect } from '../../../../host-agent/src/engines/start.ts';
import { tryGuest } from '../../../../host-agent/src/engines/trial.ts';

const spec: VmSpec = {
  vcpus: 2,
  memoryMib: 300,
  kernelPath: '/k/vmlinux',
  initramfsPath: '/k/initramfs',
  bootArgs: 'mine=1',
  disks: [
    { path: '/p/root.ext4', isReadOnly: true },
    { path: '/s/la,yer.ext4', isReadOnly: false },
  ],
};
const paths = {
  controlSocketPath: '/r/q,mp.sock',
  agentSocketPath: '/r/agent.sock',
  consolePath: '/s/console.log',
};
const memory = { kind: 'anonymous' } as const;

/** The value that follows an option's name. */
function optionValue(args: readonly string[], option: string): string | undefined {
  const at = args.indexOf(option);
  return at < 0 ? undefined : args[at + 1];
}

t.test('the arguments of a cold boot', async (t) => {
  const args = buildQemuArgs({ spec, accelerator: 'tcg', memory, ...paths });
  t.equal(optionValue(args, '-smp'), '2');
  t.equal(optionValue(args, '-m'), '300M');
  t.equal(optionValue(args, '-kernel'), '/k/vmlinux');
  t.ok(args.includes('-preconfig'), 'the machine waits for its kernel’s command line');
  t.notMatch(args.join(' '), /mine=1|-append/, 'which is not among what every user can read');
  t.match(optionValue(args, '-accel'), /^tcg,tb-size=\d+$/, 'the translation cache is capped');
  t.match(optionValue(args, '-sandbox'), /^on,/);
  t.ok(args.includes('-nodefaults') && args.includes('-no-user-config') && args.includes('-no-reboot'));
  t.match(optionValue(args, '-object'), 'memory-backend-memfd,id=ram,size=300M,share=on');
  t.equal(optionValue(args, '-qmp'), 'unix:/r/q,,mp.sock,server=on,wait=off', 'commas in paths are doubled');
  const disks = args.filter((_, index) => args[index - 1] === '-blockdev').map((text) => JSON.parse(text));
  t.match(disks, [
    { 'read-only': true, cache: { direct: false, 'no-flush': false }, file: { filename: '/p/root.ext4' } },
    { 'read-only': false, cache: { direct: false, 'no-flush': true }, file: { filename: '/s/la,yer.ext4' } },
  ]);
  const direct = buildQemuArgs({ spec, accelerator: 'tcg', memory, isDirect: true, ...paths });
  t.match(
    direct.filter((_, index) => direct[index - 1] === '-blockdev').map((text) => JSON.parse(text)),
    [{ cache: { direct: false } }, { cache: { direct: true, 'no-flush': true } }],
    'the host’s cache is for what all share',
  );
  t.equal(kernelCommandLine({ ...spec, bootArgs: '' }, ['x']).endsWith(' x'), true);
  t.match(qemuCommandLine(spec, 'tcg'), / reboot=t .* norandmaps mine=1$/, 'what is for emulation');
  t.match(
    qemuCommandLine(spec, 'kvm'),
    /^console=ttyS0 .* reboot=t tsc=reliable mine=1$/,
    'and no more with KVM',
  );
});

t.test('a trial guest, which may lie in memory, uses its disk as it can', async (t) => {
  const jail = { needsDirectWrites: true } as Jail;
  t.ok(isDirect({}, jail));
  t.notOk(isDirect({}, undefined));
  const scratchDir = await mkdtemp(join(tmpdir(), 'trial-'));
  t.teardown(() => rm(scratchDir, { recursive: true }));
  const context = { kernelPath: '/k', initramfsPath: '/i', scratchDir, log: pino({ level: 'silent' }) };
  const asked: BootOptions[] = [];
  const boot = async (options: BootOptions) => {
    asked.push(options);
    throw new Error('a fault of the test');
  };
  const ways = { context: context as unknown as EngineContext, boot, restore: boot, consolePath: () => '' };
  t.match(await tryGuest(ways), /a fault of the test/);
  t.same(
    asked.map((options) => isDirect(options, jail)),
    [false],
  );
});

t.test('a restore has the same devices, the saved memory privately, and no kernel', async (t) => {
  const boot = buildQemuArgs({ spec, accelerator: 'tcg', memory, ...paths });
  const restore = buildQemuArgs({
    spec,
    accelerator: 'tcg',
    memory: { kind: 'copy-on-write', path: '/t/memory' },
    incomingFd: 3,
    ...paths,
  });
  const devices = (args: readonly string[]) =>
    args.filter((_, at) => ['-device', '-machine', '-cpu', '-smp'].includes(args[at - 1] ?? ''));
  t.same(devices(restore), devices(boot));
  t.match(optionValue(restore, '-object'), 'mem-path=/t/memory,share=off');
  t.equal(optionValue(restore, '-incoming'), 'fd:3');
  t.notOk(restore.includes('-kernel'));
  t.match(optionValue(buildQemuArgs({ spec, accelerator: 'kvm', memory, ...paths }), '-cpu'), 'host');
});

t.test(
  'every guest has a network device, behind all others, which is joined to something or not',
  async (t) => {
    const devices = (args: readonly string[]) =>
      args.filter((_, at) => ['-netdev', '-device'].includes(args[at - 1] ?? ''));
    const others = [
      'virtio-serial-pci,id=vserial,max_ports=2',
      'virtserialport,bus=vserial.0,nr=1,chardev=agent,name=sandbox.agent',
      'virtio-blk-pci,drive=disk0,id=vblk0',
      'virtio-blk-pci,drive=disk1,id=vblk1',
      'virtio-rng-pci',
    ];
    const own = 'virtio-net-pci,id=vnet0,romfile=,guest_announce=off';
    t.same(devices(buildQemuArgs({ spec, accelerator: 'tcg', memory, ...paths })), [...others, own]);
    const net = { namespace: '/n/a', mac: '02:00:00:00:00:02', tap: 'a,b' };
    for (const extra of [{}, { incomingFd: 3 }]) {
      const args = buildQemuArgs({ spec: { ...spec, net }, accelerator: 'tcg', memory, ...paths, ...extra });
      t.same(devices(args), [
        ...others,
        'tap,id=net0,ifname=a,,b,script=no,downscript=no',
        `${own},netdev=net0,mac=02:00:00:00:00:02`,
      ]);
      t.ok(args.includes('migration.announce-rounds=0'));
    }
  },
);

t.test('a VMM is known by its control socket, whatever is in its path', async (t) => {
  const argsOf = (path: string) => ['/x/qemu-system-x86_64', '-m', '1', '-qmp', controlArgument(path)];
  fc.assert(
    fc.property(
      fc.string().filter((name) => !name.includes('\0')),
      (name) => {
        const path = `/r/${name}/qmp.sock`;
        return controlSocketOf(argsOf(path)) === path;
      },
    ),
  );
  t.equal(controlSocketOf(['bash', ...argsOf('/r/qmp.sock').slice(1)]), undefined);
  t.equal(controlSocketOf(argsOf('/r/other.sock')), undefined, 'somebody else’s');
  t.equal(
    controlSocketOf(['qemu-system-x86_64', '-qmp', 'unix:/r/a,b/qmp.sock,server=on,wait=off']),
    undefined,
  );
  t.equal(controlSocketOf(['qemu-system-x86_64']), undefined);
  t.equal(controlSocketOf([]), undefined);
});

t.test('a mapping is found by its file, deleted or not', async (t) => {
  const maps = [
    '55d0c0000000-55d0c0100000 r-xp 00000000 fe:00 123                        /usr/bin/x',
    '7f0000000000-7f0020000000 rw-s 00000000 fe:00 9                          /t/memory',
    '7f1000000000-7f1020000000 rw-p 00000000 fe:00 9                          /t/memory (deleted)',
    '7f2000000000-7f2000001000 rw-p 00000000 00:00 0 ',
  ].join('\n');
  t.match(findMapping(maps, '/t/memory'), {
    startAddress: 0x7f1000000000,
    sizeBytes: 0x20000000,
    fileOffset: 0,
  });
  t.equal(findMapping(maps, '/t/other'), undefined);
});

t.test('changed ranges cover every page of the process’s own, and little else', async () => {
  const page = fc.constantFrom('absent', 'file', 'own', 'swapped');
  // Also long runs, of which whole blocks are skipped.
  const run = fc.tuple(page, fc.constantFrom(1, 1, 1, 2, 9, 511, 512, 700));
  fc.assert(
    fc.property(fc.array(run, { maxLength: 100 }), (runs) => {
      const pages = runs.flatMap(([kind, count]) => Array.from({ length: count }, () => kind));
      const pagemap = Buffer.alloc(pages.length * 8);
      pages.forEach((kind, index) => {
        const high = { absent: 0, file: 0xa000_0000, own: 0x8000_0000, swapped: 0x4000_0000 }[kind];
        pagemap.writeUInt32LE(high, index * 8 + 4);
      });
      const ranges = changedRanges(pagemap);
      const covered = new Set<number>();
      let end = -1;
      for (const { offset, length } of ranges) {
        if (offset <= end) return false;
        end = offset + length;
        for (let at = offset; at < end; at += PAGE_BYTES) covered.add(at / PAGE_BYTES);
        // A range begins and ends with a changed page.
        for (const edge of [offset / PAGE_BYTES, end / PAGE_BYTES - 1]) {
          if (pages[edge] !== 'own' && pages[edge] !== 'swapped') return false;
        }
      }
      return pages.every((kind, index) => (kind !== 'own' && kind !== 'swapped') || covered.has(index));
    }),
  );
});

t.test('the control protocol', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'qmp-'));
  const path = join(dir, 's');
  let peer: Socket | undefined;
  const server = createServer((socket) => {
    peer = socket;
    socket.write('{"QMP": {"version": {}}}\r\n');
    socket.on('data', (chunk) => {
      for (const line of chunk.toString().trim().split('\n')) {
        const { execute, id } = JSON.parse(line) as { execute: string; id: number };
        if (execute === 'broken')
          socket.write(`{"error": {"class": "GenericError", "desc": "no such thing"}, "id": ${id}}\n`);
        else if (execute !== 'silent')
          socket.write(
            `{"event": "STOP", "data": {"a": 1}}\n{"return": {"did": "${execute}"}, "id": ${id}}\n`,
          );
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.teardown(async () => {
    server.close();
    await rm(dir, { recursive: true });
  });
  const events: QmpEvent[] = [];
  const socket = connect(path);
  await new Promise((resolve) => socket.once('connect', resolve));
  const client = await QmpClient.open(socket, (event) => events.push(event), AbortSignal.timeout(5000));
  t.same(await client.execute('stop'), { did: 'stop' });
  t.match(events.at(-1), { event: 'STOP', data: { a: 1 } });
  await t.rejects(client.execute('broken'), new QmpError('broken', 'GenericError', 'no such thing'));
  await t.rejects(client.execute('silent', {}, 50), { message: /did not answer silent within \d+ ms/ });
  const pending = client.execute('silent');
  peer?.destroy();
  await t.rejects(pending, { message: /closed its control socket/ });
  await t.rejects(client.execute('stop'), { message: /closed/ });
});

t.test(
  'a guest that is paused by a full disk is resumed until its writes succeed, but never during a save',
  async (t) => {
    const done: string[] = [];
    let status = 'io-error';
    let tries = 0;
    let isOver = false;
    const make = () =>
      new IoPause({
        readStatus: async () => {
          if (tries === 1) throw new Error('busy');
          return status;
        },
        // The disk has space at the third attempt.
        resume: async () => {
          done.push('resumed');
          if (++tries === 3) status = 'running';
        },
        isOver: () => isOver,
        onResumed: () => done.push('clock'),
        log: pino({ level: 'silent' }),
        retryMs: 5,
      });
    const waitFor = async (condition: () => boolean) => {
      for (let round = 0; round < 1000 && !condition(); round++) await sleep(5);
      t.ok(condition());
    };
    const keepAlive = setInterval(() => undefined, 1000);
    t.teardown(() => clearInterval(keepAlive));
    const standstill = make();
    t.equal(standstill.reason, undefined);
    await standstill.duringSave(async () => {
      standstill.begin('No space left on device');
      standstill.begin('No space left on device');
      t.match(standstill.reason, /does not take .*\(no space left on device\)/);
      await sleep(50);
      t.same(done, [], 'what is saved stands still on purpose');
    });
    await waitFor(() => tries === 1);
    tries = 2;
    await waitFor(() => standstill.reason === undefined);
    t.same(done, ['resumed', 'resumed', 'clock']);
    status = 'io-error';
    const abandoned = make();
    abandoned.begin('x');
    isOver = true;
    await sleep(50);
    t.equal(done.length, 3, 'one that ended is left alone');
  },
);
