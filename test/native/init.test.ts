// The guest's init under sanitizers, as an ordinary program that only prints its actions on the machine (init-host.c).
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import t, { type Test } from 'tap';

const HOST = join(import.meta.dirname, '../../dist/sanitized/init-host');
const AGENT = 'execve /.sandbox/lib/ld-linux-x86-64.so.2';
const POWER_OFF = 3;

type Files = Readonly<Record<string, string>>;
const DISKS: Files = { 'dev/vda': 'root'.padEnd(4096), 'dev/vdb': 'layer'.padEnd(4096) };

/** A machine of plain files. Not in /tmp, which may be a tmpfs without O_DIRECT. */
function makeMachine(t: Test, files: Files, links: Files = {}): string {
  const root = mkdtempSync('/var/tmp/init-test-');
  t.teardown(() => rmSync(root, { recursive: true }));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  for (const [path, target] of Object.entries(links)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    symlinkSync(target, join(root, path));
  }
  return root;
}

type Boot = {
  readonly lines: readonly string[];
  readonly said: string;
  readonly code: number | null;
  readonly read: (path: string) => string;
};

/** Resolves when init has executed a program or failed. */
async function boot(t: Test, files: Files, links: Files = {}): Promise<Boot> {
  const root = makeMachine(t, files, links);
  const child = spawn(HOST, [root], { stdio: ['ignore', 'pipe', 'pipe'] });
  const texts = { out: '', said: '' };
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    texts.out += chunk;
  });
  child.stderr.setEncoding('latin1').on('data', (chunk) => {
    texts.said += chunk;
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  const read = (path: string) => readFileSync(join(root, path), 'latin1');
  return { lines: texts.out.split('\n').slice(0, -1), said: texts.said, code, read };
}

t.test('a root of two disks, and the agent in it', async (t) => {
  const { lines, said, code } = await boot(t, { ...DISKS, 'proc/cmdline': 'console=hvc0 quiet\n' });
  t.equal(said, '');
  t.equal(code, 0);
  t.same(
    lines.map((line) => line.split(' ').slice(0, 3).join(' ')),
    [
      'mount proc /proc',
      'mount sysfs /sys',
      'mount devtmpfs /dev',
      'mount /dev/vda /lower',
      'mount /dev/vdb /layer',
      'mount overlay /root',
      'mount /dev /root/dev',
      'mount /proc /root/proc',
      'mount /sys /root/sys',
      'mount . /',
      'chroot .',
      `${AGENT} ${AGENT.split(' ')[1]}`,
    ],
  );
  t.match(lines[4], /nobarrier,noinit_itable,commit=60$/);
});

t.test(
  'a guest without a root: the agent from its own image, over memory, and both disks let go of',
  async (t) => {
    const unbind = 'sys/bus/virtio/drivers/virtio_blk/unbind';
    const files = {
      ...DISKS,
      'dev/vdc': 'agent'.padEnd(4096),
      'proc/cmdline': 'sandbox.bare quiet\n',
      [unbind]: '',
    };
    const links = {
      'sys/block/vda/device': '../../../virtio1',
      'sys/block/vdb/device': '../../../virtio22',
    };
    const { lines, said, code, read } = await boot(t, files, links);
    t.equal(said, '');
    t.equal(code, 0);
    t.same(
      lines.slice(3, 8).map((line) => line.split(' ').slice(0, 3).join(' ')),
      [
        'mount /dev/vdb /layer',
        'umount /layer',
        'mount /dev/vdc /lower',
        'mount tmpfs /layer',
        'mount overlay /root',
      ],
    );
    t.match(lines.at(-1), AGENT);
    t.equal(read(unbind), 'virtio22', 'the last of the two that were written');
    const none = await boot(t, { ...DISKS, 'proc/cmdline': 'sandbox.bare' });
    t.equal(none.said, "sandbox-init: disk: /dev/vdc (agent's image) did not appear\n");
    const held = await boot(t, { ...files, [unbind]: '' }, { 'sys/block/vda/device': '../../../virtio1' });
    t.match(held.said, /^sandbox-init: release: \/sys\/block\/vdb\/device: /);
    t.equal(held.code, POWER_OFF);
  },
);

t.test('an image may have files and links where its mount points are to be', async (t) => {
  const { lines, said, read } = await boot(
    t,
    { ...DISKS, 'proc/cmdline': '', 'root/dev': 'a file', 'root/sys/kept': 'kept' },
    { 'root/proc': '/nowhere' },
  );
  t.equal(said, '');
  t.ok(lines.includes('chroot .'));
  for (const path of ['root/dev/.', 'root/proc/.']) t.throws(() => read(path), { code: 'EISDIR' }, path);
  t.equal(read('root/sys/kept'), 'kept', 'a directory stays');
});

t.test('modules in their order: of all machines, of present devices, and those asked for', async (t) => {
  const list = [
    'always.ko',
    'net.ko 1',
    'disk.ko 2 99',
    'asked.ko asked',
    'other.ko other',
    '',
    'vsock.ko 19',
  ];
  const names = list.flatMap((line) => line.split(' ')[0] || []);
  const { lines, code } = await boot(t, {
    ...DISKS,
    ...Object.fromEntries(names.map((name) => [`modules/${name}`, name])),
    'modules/list': `${list.join('\n')}\n`,
    'sys/bus/virtio/devices/virtio0/device': '0x0002\n',
    'sys/bus/virtio/devices/virtio1/device': '0x0013\n',
    'sys/bus/virtio/devices/virtio2/device': '0xffffffffffff\n',
    'proc/cmdline': 'sandbox.modules=other sandbox.modules=none,asked sandbox.disk-errors',
  });
  t.equal(code, 0);
  t.same(
    lines.filter((line) => line.startsWith('module')),
    ['always.ko', 'disk.ko', 'asked.ko', 'vsock.ko'].map((name) => `module ${name}`),
    'the last of two parameters counts',
  );
  t.ok(
    lines.some((line) => line.endsWith('nodelalloc')),
    'disk errors were asked for',
  );
});

t.test('another program than the agent: of the root, or of the initramfs', async (t) => {
  const cmdline = { 'proc/cmdline': 'sandbox.init=/bin/own sandbox.debug' };
  const ofRoot = await boot(t, { ...DISKS, ...cmdline });
  t.match(ofRoot.lines.at(-1), /^execve \/bin\/own \/bin\/own PATH=/);
  t.match(ofRoot.said, /^sandbox-init: \d+\.\d{3} ms init started$/m);
  const ofInitramfs = await boot(t, { ...DISKS, ...cmdline, 'bin/own': '' });
  t.equal(ofInitramfs.lines.at(-1), 'execveat');
});

t.test('what cannot be begun is named, and the machine is switched off', async (t) => {
  const noModule = await boot(t, { ...DISKS, 'proc/cmdline': '', 'modules/list': 'gone.ko\n' });
  t.equal(noModule.said, 'sandbox-init: module: /modules/gone.ko: No such file or directory\n');
  t.equal(noModule.code, POWER_OFF);
  const noDisk = await boot(t, { 'dev/vda': '', 'proc/cmdline': '' });
  t.equal(noDisk.said, 'sandbox-init: disk: /dev/vdb (writable layer) did not appear\n');
  t.equal(noDisk.code, POWER_OFF);
});

t.test('a probe counts, and writes each number to the layer', async (t) => {
  const root = makeMachine(t, { ...DISKS, 'proc/cmdline': 'sandbox.probe=nonce' });
  const child = spawn(HOST, [root], { stdio: ['ignore', 'ignore', 'pipe'] });
  t.teardown(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stderr })) {
    if (lines.push(line) === 2) break;
  }
  t.match(lines[0], /^sandbox-probe: [0-9a-f]{16} 1\.$/);
  t.equal(lines[1], lines[0]?.replace(' 1.', ' 2.'));
  t.ok(readFileSync(join(root, 'dev/vdb')).readUInt32LE() >= 2);
});

t.test('no command line and no list of modules breaks it', async (t) => {
  const word = fc.oneof(
    fc.constantFrom(
      'sandbox.modules',
      'sandbox.modules=',
      'sandbox.modules=,a,,b,',
      'sandbox.debug=',
      '=',
      'a',
      'b 1',
    ),
    fc.constantFrom('sandbox.debug', 'x'.repeat(300), '99999999999999999999', '-1', '63', '64', ',', '\t'),
    fc.string({ maxLength: 40 }).map((text) => text.replace(/\0/g, '')),
  );
  const text = fc
    .array(fc.tuple(word, fc.constantFrom(' ', '\n', '  ', '')), { maxLength: 60 })
    .map((parts) => parts.flat().join(''));
  const padded = fc
    .tuple(text, fc.constantFrom(0, 4094, 4095, 4096, 5000))
    .map(([it, size]) => it.padEnd(size, 'a b '));
  await fc.assert(
    fc.asyncProperty(padded, padded, async (cmdline, list) => {
      const { lines, said, code } = await boot(t, {
        ...DISKS,
        'modules/a': 'a',
        'modules/b': 'b',
        'sys/bus/virtio/devices/virtio0/device': '0x3f',
        'proc/cmdline': cmdline,
        'modules/list': list,
      });
      const isBooted = code === 0 && lines.at(-1)?.startsWith('exec') === true;
      const isRefused = code === POWER_OFF && /^sandbox-init: module: \/modules\//m.test(said);
      if (!isBooted && !isRefused) throw new Error(`${code}: ${said}`);
    }),
    { numRuns: 60 },
  );
});
