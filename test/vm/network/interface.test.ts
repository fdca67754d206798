// A guest's network device and what the agent makes of it, without the daemon's network: a VMM in a namespace that a test made.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { copySparse, createWritableLayer, resolveKernel, resolveProfile } from '@sandboxd/rootfs-builder';
import { pino } from 'pino';
import t from 'tap';
import type { Engine, EngineContext, SavedVm, Vm } from '../../../host-agent/src/engines/engine.ts';
import { makeEngines } from '../../../host-agent/src/engines/index.ts';
import { Jail } from '../../../host-agent/src/engines/jail/jail.ts';
import { Guest } from '../../../host-agent/src/guest/guest.ts';
import type { NetworkSlot } from '../../../host-agent/src/network/subnet.ts';
import { makeIdentity } from '../../../host-agent/src/sandboxes/resources/agent.ts';
import { BAKED_DATA_DIR } from '../../support/daemon.ts';
import { HELPERS } from '../../support/helper-programs.ts';
import { TEST_CGROUPS, TEST_UIDS } from '../../support/jailed.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(300_000));
const MEMORY_MIB = 256;
const DISK_BYTES = 4096 * 2 ** 20;
const run = promisify(execFile);
const log = pino({ level: 'silent' });

await mkdir(join(BAKED_DATA_DIR, 'test'), { recursive: true });
const root = await mkdtemp(join(BAKED_DATA_DIR, 'test', 'net-'));
const sockets = await mkdtemp('/run/net-test-');
t.teardown(async () => {
  for (const dir of [root, sockets]) await rm(dir, { recursive: true, force: true });
});
const kernel = await resolveKernel(BAKED_DATA_DIR);
const { rootfsPath } = await resolveProfile(BAKED_DATA_DIR, 'python-3.11');
const engine = await openEngine();

async function openEngine(): Promise<Engine> {
  const jail = await Jail.open({
    program: HELPERS.jail,
    uids: TEST_UIDS,
    cgroups: TEST_CGROUPS,
  });
  const context: Omit<EngineContext, 'program'> = {
    ...{
      kernelPath: kernel.vmlinuxPath,
      initramfsPath: kernel.initramfsPath,
      claimProgram: HELPERS.claim,
      memfdProgram: HELPERS.memfd,
    },
    ...{ scratchDir: sockets, jail, log },
    forkMemory: 'auto',
  };
  for (const each of makeEngines(process.env.SANDBOXD_TEST_ENGINE ?? 'qemu', context, {})) {
    if (!each.isEmulation && process.env.SANDBOXD_TEST_ENGINE === undefined) continue;
    if ((await each.probe()).isUsable) return each;
  }
  throw new Error('no engine runs guests here');
}

let slots = 0;

/** A namespace with a tap whose other side, the gateway, answers. */
async function makeSlot(): Promise<NetworkSlot> {
  const name = `net-test-${process.pid}-${slots++}`;
  const address = `10.77.${slots}`;
  await run('ip', ['netns', 'add', name]);
  t.teardown(() => run('ip', ['netns', 'delete', name]));
  const commands = [
    'link set lo up',
    'tuntap add tap0 mode tap vnet_hdr',
    'link set tap0 address 02:00:00:00:00:01',
    `address add ${address}.1/30 dev tap0`,
    'link set tap0 up',
    `neighbour add ${address}.2 lladdr 02:00:00:00:00:02 dev tap0 nud permanent`,
  ];
  for (const command of commands) await run('ip', ['-n', name, ...command.split(' ')]);
  return {
    ...{ namespace: `/run/netns/${name}`, tap: 'tap0', prefixLength: 30 },
    ...{ mac: '02:00:00:00:00:02', gatewayMac: '02:00:00:00:00:01' },
    ...{ guestIp: `${address}.2`, gateway: `${address}.1`, resolverIp: `${address}.3` },
  };
}

/** Its process keeps nobody waiting by itself. */
async function kill(vm: Vm): Promise<void> {
  const alive = setInterval(() => undefined, 1000);
  await vm.kill().finally(() => clearInterval(alive));
}

type Running = { readonly vm: Vm; readonly guest: Guest; readonly layer: string };

async function start(
  name: string,
  network?: NetworkSlot,
  from?: SavedVm & { layer: string },
): Promise<Running> {
  const paths = { dir: join(root, name), socketDir: join(sockets, name) };
  for (const dir of [paths.dir, paths.socketDir]) await mkdir(dir);
  const layer = join(paths.dir, 'layer');
  if (from === undefined) await createWritableLayer(BAKED_DATA_DIR, layer, DISK_BYTES);
  else await copySparse(from.layer, layer);
  const spec = {
    ...{ vcpus: 1, memoryMib: MEMORY_MIB, bootArgs: '' },
    ...{ kernelPath: kernel.vmlinuxPath, initramfsPath: kernel.initramfsPath },
    disks: [
      { path: rootfsPath, isReadOnly: true },
      { path: layer, isReadOnly: false },
    ],
    ...(network !== undefined && { net: network }),
  };
  const options = { spec, paths, log };
  const startedAt = performance.now();
  const vm =
    from === undefined ? await engine.boot(options) : await engine.restore({ ...options, saved: from });
  t.teardown(() => kill(vm));
  const times = [performance.now() - startedAt];
  const guest = new Guest({ source: vm, incarnation: name, log });
  t.teardown(() => guest.close(new Error('over')));
  await guest.connect(AbortSignal.timeout(scaled(60_000)));
  times.push(performance.now() - startedAt);
  await guest.setIdentity(makeIdentity(`sbx_${name}`, network));
  times.push(performance.now() - startedAt);
  t.comment(`${name}: started, connected, itself after ${times.map(Math.round).join(', ')} ms`);
  return { vm, guest, layer };
}

async function save({ vm, layer, guest }: Running, name: string): Promise<SavedVm & { layer: string }> {
  const dir = join(root, `saved-${name}`);
  await mkdir(dir);
  await guest.hold();
  const disk = join(dir, 'disk');
  const saved = await vm.save({
    dir,
    memoryBytes: MEMORY_MIB * 2 ** 20,
    whilePaused: () => copySparse(layer, disk),
  });
  guest.release();
  return { ...saved, layer: disk };
}

function sh({ guest }: Running, script: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let text = '';
  const session = guest.exec(
    { cmd: ['sh', '-c', script], env: {}, timeout_s: 120 },
    {
      output: (_stream, chunk) => {
        text += chunk;
        session.consumed(chunk.length);
      },
      exit: ({ exitCode, error }) =>
        exitCode === 0 ? resolve(text.trim()) : reject(new Error(`${exitCode} ${error ?? ''}: ${text}`)),
    },
  );
  return promise;
}

/** Serves in a namespace: says `hello`, and then what it is told, until it is ended. */
async function serve({ namespace, gateway }: NetworkSlot): Promise<void> {
  const name = namespace.split('/').at(-1) ?? '';
  const program = `import socket
s = socket.create_server(('${gateway}', 7))
print('listening', flush=True)
kept = []
while True:
  c, a = s.accept()
  c.sendall(b'hello ' + a[0].encode())
  kept.append(c)
`;
  const child = execFile('ip', ['netns', 'exec', name, 'python3', '-c', program]);
  t.teardown(() => child.kill());
  await new Promise((resolve) => child.stdout?.once('data', resolve));
}

const ASK = (gateway: string): string =>
  `python3 -c "import socket; s = socket.create_connection(('${gateway}', 7), 20); print(s.recv(99).decode())"`;
const INTERFACES = 'ls /sys/class/net';

const template = await start('template');
let saved: SavedVm & { layer: string };

t.test('a guest without a network has lo and nothing else', async (t) => {
  t.equal(await sh(template, INTERFACES), 'lo');
  await sh(template, 'rm -f /etc/resolv.conf; ln -s /run/nowhere/resolv.conf /etc/resolv.conf');
  saved = await save(template, 'template');
  const copy = await start('plain', undefined, saved);
  t.equal(await sh(copy, INTERFACES), 'lo');
});

t.test('a copy of it with one reaches its gateway, and a copy of that one its own', async (t) => {
  const [first, second, third] = [await makeSlot(), await makeSlot(), await makeSlot()];
  for (const slot of [first, second, third]) await serve(slot);
  const one = await start('one', first, saved);
  t.equal(await sh(one, INTERFACES), 'eth0\nlo');
  t.equal(
    await sh(one, 'cat /etc/resolv.conf'),
    `nameserver ${first.gateway}`,
    'in place of a link to nowhere',
  );
  t.equal(await sh(one, 'cat /sys/class/net/eth0/address'), first.mac);
  t.equal(await sh(one, 'cat /proc/net/if_inet6 | grep -v " lo$" || true'), '');
  t.equal(await sh(one, ASK(first.gateway)), `hello ${first.guestIp}`);

  await t.test('connections of the source end in the copy, and go on in the source', async (t) => {
    const holder = `import socket, sys
s = socket.create_connection(('${first.gateway}', 7), 20)
s.recv(99)
open('/tmp/connected', 'w').close()
s.settimeout(None)
try: print('got', s.recv(99))
except OSError as error: open('/tmp/fate', 'w').write(type(error).__name__)
`;
    await sh(
      one,
      `cat > /tmp/holder.py << 'END'\n${holder}END\n(setsid python3 /tmp/holder.py > /dev/null 2>&1 &)`,
    );
    await sh(one, 'until test -e /tmp/connected; do sleep 0.1; done');
    const again = await save(one, 'one');
    const copies = [await start('two', second, again), await start('three', third, again)];
    for (const [index, copy] of copies.entries()) {
      const slot = [second, third][index] as NetworkSlot;
      t.equal(await sh(copy, ASK(slot.gateway)), `hello ${slot.guestIp}`);
      t.equal(await sh(copy, 'cat /etc/resolv.conf'), `nameserver ${slot.gateway}`);
      await sh(copy, 'until test -e /tmp/fate; do sleep 0.1; done');
      t.match(await sh(copy, 'cat /tmp/fate'), /^Connection(Aborted|Reset)Error$/);
      const addresses = await sh(copy, 'cat /proc/net/fib_trie | grep -o "[0-9.]*" | sort -u');
      t.notOk(addresses.includes(first.guestIp), 'nothing of the source’s address is left');
    }
    t.equal(await sh(one, 'ls /tmp/fate 2> /dev/null || true'), '');
    t.equal(await sh(one, ASK(first.gateway)), `hello ${first.guestIp}`);
  });
});

t.test('a guest that is booted with a network has it', async (t) => {
  const slot = await makeSlot();
  await serve(slot);
  const booted = await start('booted', slot);
  t.equal(await sh(booted, ASK(slot.gateway)), `hello ${slot.guestIp}`);
});
