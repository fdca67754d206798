// What an image has in /run, as mariadb, postgres and php-fpm have: it is there when the service starts, in memory, however the
// guest came to its root.
import t from 'tap';
import { poll } from '../../host-agent/src/lib/wait.ts';
import { startDaemon } from '../support/daemon.ts';
import { filesOfPackage } from '../support/debian-packages.ts';
import { scaled } from '../support/time-scale.ts';
import { archive, type Member, pax } from '../unit/guest-agent/support/tar-blocks.ts';
import { makeLayoutOf, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const world = new World(t);
const { api } = await startDaemon(t, { flags: ['--image-path-allow', world.dir] });

const directory = (name: string, mode = 0o755): Member => ({ name, flag: '5', mode });
const OWNER = pax({ uid: '1001', gid: '1002' });
const BUSYBOX = filesOfPackage('busybox-static');
/** Says whether it could write as such a service does. */
const SERVICE = 'echo 1 > /run/app/pid && echo wrote || echo could not; exec busybox sleep 1000000';

async function create(run: readonly Member[], boot_args: string): Promise<string> {
  const layer = archive([directory('run'), OWNER, directory('run/app', 0o2750), ...run]);
  const config = { Entrypoint: ['busybox', 'sh', '-c', SERVICE], User: '1001:1002', Env: ['PATH=/bin'] };
  const path = makeLayoutOf(world.path('layout'), { layers: [BUSYBOX, layer], config });
  return (await api.ask('createSandbox', { body: { image: { path }, boot_args } })).id;
}

/** The first line that the service said. */
function said(id: string): Promise<string> {
  const read = async () => {
    const { records } = await api.ask('readLogs', { params: { id }, query: { source: 'service' } });
    return records.find(({ stream }) => stream !== 'event')?.text;
  };
  return poll(read, 100, AbortSignal.timeout(scaled(60_000)));
}

const inBusybox = async (id: string, script: string): Promise<string> =>
  (await api.exec(id, ['busybox', 'sh', '-c', script])).stdout.trim();
const type = (id: string, path: string) => inBusybox(id, `busybox stat -f -c %T ${path}`);

for (const boot_args of ['', 'quiet'])
  t.test(`what is in /run is in memory, ${boot_args === '' ? 'as a copy' : 'booted'}`, async (t) => {
    const id = await create(
      [
        OWNER,
        { name: 'run/app/seed', mode: 0o640, content: 'seed\n' },
        { name: 'run/out', flag: '2', target: '../etc/hostname' },
        { name: 'run/disk', flag: '4', mode: 0o666, patch: (header) => header.write('0000376\0', 329) },
        directory('run/sandbox', 0o777),
        { name: 'run/sandbox/id', content: 'mine' },
      ],
      boot_args,
    );
    t.equal(await said(id), 'wrote\n');
    t.equal(await type(id, '/run'), 'tmpfs');
    t.equal(
      await inBusybox(id, 'cd /run; busybox stat -c "%n %a %u:%g" app app/seed out disk lock sandbox'),
      [
        ...['app 2750 1001:1002', 'app/seed 640 1001:1002', 'out 777 0:0', 'disk 666 0:0'],
        ...['lock 1777 0:0', 'sandbox 755 0:0'],
      ].join('\n'),
    );
    t.equal(await inBusybox(id, 'busybox cat /run/app/seed /run/sandbox/id'), `seed\n${id}`);
    t.equal(await inBusybox(id, 'busybox cat /run/out'), await inBusybox(id, 'busybox hostname'));
    t.equal(await inBusybox(id, 'busybox head -c 1 /run/disk 2> /dev/null || echo refused'), 'refused');
    if (boot_args === '') {
      const { id: snapshot } = await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
      const { sandboxes } = await api.call<{ sandboxes: { id: string }[] }>(
        'POST',
        `/snapshots/${snapshot}/fork`,
      );
      const fork = sandboxes[0]?.id ?? '';
      t.equal(
        await inBusybox(fork, 'busybox cat /run/app/seed /run/app/pid /run/sandbox/id'),
        `seed\n1\n${fork}`,
      );
      await api.delete(fork);
      await api.call('DELETE', `/snapshots/${snapshot}`);
    }
    await api.delete(id);
  });

for (const boot_args of ['', 'quiet'])
  t.test(
    `too much of it stays on the disk, whole, ${boot_args === '' ? 'as a copy' : 'booted'}`,
    async (t) => {
      const many = Array.from({ length: 3000 }, (_, n) => ({ name: `run/f${n}`, content: `${n}` }));
      const own = { name: 'run/sandbox', flag: '2', target: '/bin' };
      const id = await create(
        [...many, { name: 'run/large', content: 'x'.repeat(8_000_000) }, own],
        boot_args,
      );
      t.equal(await said(id), 'wrote\n');
      t.equal(
        await inBusybox(id, 'busybox ls /run | busybox grep -c ^f; busybox wc -c < /run/large'),
        '3000\n8000000',
      );
      t.not(await type(id, '/run'), 'tmpfs');
      t.equal(await type(id, '/run/sandbox'), 'tmpfs', 'what a guest says of itself is nobody else’s');
      t.equal(await inBusybox(id, 'busybox cat /run/sandbox/id'), id);
      await api.delete(id);
    },
  );
