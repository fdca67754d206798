// Command lines of QEMU: devices, memory, and the socket by which one is known.
import fc from 'fast-check';
import t from 'tap';
import type { VmSpec } from '../../../../../host-agent/src/engines/engine.ts';
import { kernelCommandLine } from '../../../../../host-agent/src/engines/kernel-command-line.ts';
import { buildQemuArgs, qemuCommandLine } from '../../../../../host-agent/src/engines/qemu/args.ts';
import { controlArgument, controlSocketOf } from '../../../../../host-agent/src/engines/qemu/files.ts';

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
