// Guests whose root did something to their interface: a copy of each is on its own network or is refused with a reason, and
// nothing hangs. And a VMM without a jail is in the sandbox's network all the same.
import '../../support/network/own-network.ts';
import { readlink } from 'node:fs/promises';
import t from 'tap';
import type { Api, SandboxJson } from '../../support/api.ts';
import { startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { findNetworkViolations } from '../../support/network/violations.ts';
import { scaled } from '../../support/time-scale.ts';
import { vmmOf } from '../../support/vmms.ts';

t.setTimeout(scaled(900_000));
const internet = await openInternet(t);
const { host, web } = internet.machines;
await internet.names.serve([`host-record=web.test,${web.address},60`]);
const network = { enabled: true, allowlist: ['web.test'] };
const OPTIONS = { profile: 'python-3.11', memory_mib: 256, network };

const ASK = `
import socket
s = socket.create_connection(('web.test', 7), 20); print(s.recv(99).decode().strip())
`;
/** What an image need not have a program for. */
const TOOLS = `
import ctypes, fcntl, os, socket, struct, subprocess, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ioctl(code, name, data=b''): fcntl.ioctl(s, code, struct.pack('16s24s', name.encode(), data))
def down(name): ioctl(0x8914, name, struct.pack('h', 0))
def rename(old, new): ioctl(0x8923, old, new.encode())
def attribute(kind, data): return struct.pack('HH', 4 + len(data), kind) + data + b'\\0' * (-len(data) % 4)
def link(kind, flags, index, *attributes):
  body = struct.pack('BxHiII', 0, 0, index, 0, 0) + b''.join(attributes)
  n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
  n.send(struct.pack('IHHII', 16 + len(body), kind, 5 | flags, 1, 0) + body)
  error = struct.unpack('i', n.recv(9999)[16:20])[0]
  if error: raise OSError(-error, os.strerror(-error))
def index(name): return socket.if_nametoindex(name)
def namespace():
  p = subprocess.Popen(['unshare', '--net', 'sleep', '9999'], start_new_session=True)
  while os.readlink('/proc/%d/ns/net' % p.pid) == os.readlink('/proc/self/ns/net'): pass
  return p.pid
def move(name): link(16, 0, index(name), attribute(19, struct.pack('I', namespace())))
def dummy(name): link(16, 0x600, 0, attribute(3, name.encode() + b'\\0'), attribute(18, attribute(1, b'dummy\\0')))
def device():
  for bus in os.listdir('/sys/bus/virtio/devices'):
    if int(open('/sys/bus/virtio/devices/%s/device' % bus).read(), 16) == 1: return bus
def write(path, text): open(path, 'w').write(text)
`;

type Tampering = { readonly script: string; readonly refusal?: RegExp; readonly isLong?: true };

/** What root does, by name, and why a copy has to be refused, where it has. With SOAK=1 those, too, that take long. */
const TAMPERINGS: Readonly<Record<string, Tampering>> = {
  'is set down': { script: `down('eth0')` },
  'has another name': { script: `down('eth0'); rename('eth0', 'wan0')`, isLong: true },
  'has another name, and a dummy has its own': {
    script: `down('eth0'); rename('eth0', 'wan0'); subprocess.run('modprobe dummy 2> /dev/null', shell=True)
try: dummy('eth0')
except OSError as error: print(error)`,
  },
  'is in another namespace': { script: `move('eth0')` },
  'has another address, MAC and no route': {
    script: `down('eth0')
ioctl(0x8924, 'eth0', struct.pack('H', 1) + bytes([2, 0, 0, 0, 0, 9]))
ioctl(0x8916, 'eth0', struct.pack('HH4s', 2, 0, bytes([10, 1, 2, 3])))`,
  },
  'has lost its driver': { script: `write('/sys/bus/virtio/drivers/virtio_net/unbind', device())` },
  'has a driver that is unloaded': {
    script: `print(ctypes.CDLL(None, use_errno=True).syscall(176, b'virtio_net', 0o4000))`,
    refusal: /virtio_net|network device|bind/,
  },
  'is taken from the bus': {
    script: `path = os.path.realpath('/sys/bus/virtio/devices/' + device() + '/..'); write(path + '/remove', '1')`,
    refusal: /find a network device/,
    isLong: true,
  },
  'has lost the driver of its bus': {
    script: `path = os.path.realpath('/sys/bus/virtio/devices/' + device() + '/..')
write(path + '/driver/unbind', os.path.basename(path))`,
    refusal: /find a network device/,
    isLong: true,
  },
  'is behind a resolver file that cannot be written': {
    script: `os.path.islink('/etc/resolv.conf') or os.remove('/etc/resolv.conf'); os.makedirs('/etc/resolv.conf/x', exist_ok=True)`,
    refusal: /directory not empty, rmdir '\/etc\/resolv.conf'/,
  },
};

const ask = (api: Api, { id }: SandboxJson) =>
  api.exec(id, ['python3', '-c', ASK]).then(({ stdout }) => stdout.trim());

t.test('copies of guests whose interface root has changed', async (t) => {
  const daemon = await startDaemon(t, { flags: internet.daemonFlags });
  const { api } = daemon;
  for (const [name, { script, refusal, isLong }] of Object.entries(TAMPERINGS)) {
    if (isLong && process.env.SOAK !== '1') continue;
    await t.test(`the interface ${name}`, async (t) => {
      const source = await api.create(OPTIONS);
      t.equal(await ask(api, source), host.address);
      const done = await api.exec(source.id, ['python3', '-c', TOOLS + script]);
      t.notOk(done.stderr, done.stdout);
      t.equal(await ask(api, source).catch(() => ''), '', 'it is as good as none there');
      const { id: snapshot } = await api.call<{ id: string }>('POST', `/sandboxes/${source.id}/snapshot`);
      const forked = api.call<{ sandboxes: SandboxJson[] }>(
        'POST',
        `/snapshots/${snapshot}/fork?count=${refusal ? 1 : 2}`,
      );
      const said = await forked.then(
        () => 'made',
        (error: Error) => error.message,
      );
      if (refusal) t.match(said, new RegExp(`^500: cannot create the sandbox .*${refusal.source}`));
      else t.equal(said, 'made');
      for (const child of said === 'made' ? (await forked).sandboxes : []) {
        t.equal(await ask(api, child), host.address, 'the copy connects');
        t.equal(await api.sh(child.id, 'cat /etc/resolv.conf'), `nameserver ${child.network?.gateway}`);
        await api.delete(child.id);
      }
      t.equal(await api.sh(source.id, 'echo well'), 'well', 'the source is as it was');
      await api.delete(source.id);
      t.same(await findNetworkViolations(daemon, []), [], 'nothing is left');
    });
  }
});

t.test('a VMM without a jail is in the network of its sandbox, and so is its fork', async (t) => {
  const daemon = await startDaemon(t, { flags: [...internet.daemonFlags, '--insecure-no-jail'] });
  const { api } = daemon;
  const service = { cmd: ['python3', '-m', 'http.server', '8000'] };
  const source = await api.create({ ...OPTIONS, service, publish: [{ host_port: 8085, guest_port: 8000 }] });
  const { id: snapshot } = await api.call<{ id: string }>('POST', `/sandboxes/${source.id}/snapshot`);
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${snapshot}/fork?count=1`,
    { publish: [{ host_port: 8086, guest_port: 8000 }] },
  );
  const spaces = new Set([await readlink('/proc/self/ns/net')]);
  for (const one of [source, ...sandboxes]) {
    spaces.add(await readlink(`/proc/${await vmmOf(one)}/ns/net`));
    t.equal(await ask(api, one), host.address);
    const denied = ASK.replace('web.test', host.address);
    t.match((await api.exec(one.id, ['python3', '-c', denied])).stderr, /ConnectionRefused/);
  }
  t.equal(spaces.size, 3, 'each in its own');
  for (const port of [8085, 8086])
    t.match(
      await web.sh(`curl -s --retry 60 --retry-delay 1 --retry-all-errors http://${host.address}:${port}/`),
      /Directory listing/,
    );
  t.same(await findNetworkViolations(daemon, [8085, 8086]), []);
});
