// Modules of the guest's kernel: there in every guest, whatever its root is, and loaded when something needs them.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { compileSource } from '../support/image-program.ts';
import { scaled } from '../support/time-scale.ts';
import { archive, type Member } from '../unit/guest-agent/support/tar-blocks.ts';
import { makeLayoutOf, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const world = new World(t);
const { api, url } = await startDaemon(t, { flags: ['--image-path-allow', world.dir] });

const SOURCE = readFileSync(join(import.meta.dirname, '../guest/kernel-work.c'), 'utf8');
const program = compileSource(SOURCE, 'gcc', '-static');
const file = (name: string, content: string | Buffer, mode = 0o644): Member => ({ name, mode, content });
const directory = (name: string): Member => ({ name, flag: '5', mode: 0o755 });
const symlink = (name: string, target: string): Member => ({ name, flag: '2', target });

const WORKS = [
  'fuse: ok',
  'tun: ok',
  'loop: ok',
  ...['squashfs', 'xfs', 'btrfs', 'iso9660', 'vfat', 'nfs', 'nfs4', 'cifs'].map((type) => `${type}: ok`),
  "a file of the guest's among the modules: Read-only file system",
  '',
].join('\n');
const MODULES = '/lib/modules/$(uname -r)';

async function create(t: Test, body: Record<string, unknown>): Promise<string> {
  const { id } = await api.create(body);
  t.teardown(() => api.delete(id));
  return id;
}

for (const [name, bootArgs] of Object.entries({ copied: '', booted: 'quiet' }))
  t.test(`a guest of a profile, ${name}`, async (t) => {
    const id = await create(t, { profile: 'base', boot_args: bootArgs });
    const sh = (script: string) => api.sh(id, script);
    const devices = '/dev/fuse /dev/net/tun /dev/loop-control /dev/loop0 /dev/loop7';
    t.equal(
      await sh(`stat -c '%n %F %a %t:%T' ${devices}`),
      [
        '/dev/fuse character special file 666 a:e5',
        '/dev/net/tun character special file 666 a:c8',
        '/dev/loop-control character special file 600 a:ed',
        '/dev/loop0 block special file 600 7:0',
        '/dev/loop7 block special file 600 7:7',
      ].join('\n'),
    );
    t.equal(
      await sh('grep -cE "^(fuse|tun|loop|veth|nfs) " /proc/modules || true'),
      '0',
      'nothing is loaded',
    );
    const types = 'bridge dummy veth wireguard';
    t.equal(
      await sh(`for type in ${types}; do ip link add of-$type type $type && echo $type; done | xargs`),
      types,
    );
    t.equal(
      await sh(
        'truncate -s 9M /disk; mke2fs -q /disk; mount -o loop /disk /mnt; echo in > /mnt/it; findmnt -no FSTYPE /mnt',
      ),
      'ext2',
    );
    t.equal(
      await sh(
        'mkdir -p /mnt/a /mnt/b /mnt/c /mnt/d; mount -t overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/c it /mnt/d; cd /; umount /mnt/d /mnt; echo done',
      ),
      'done',
    );
    const files = `${MODULES}/modules.dep ${MODULES}/modules.alias.bin ${MODULES}/modules.builtin`;
    t.equal(
      await sh(
        `ls ${files} | wc -l; findmnt -no OPTIONS,SOURCE ${MODULES} | grep -o '^ro,nosuid,nodev.*vdc'`,
      ),
      '3\nro,nosuid,nodev,noatime,norecovery /dev/vdc',
    );
  });

t.test(
  'images of containers: without any program, with a module directory of their own, odd ones',
  async (t) => {
    const own = 'lib/modules/1.2.3-theirs/modules.dep';
    const roots: Record<string, readonly Member[]> = {
      'one program and nothing else': [],
      'a /lib that leads to /usr/lib': [directory('usr/lib'), symlink('lib', 'usr/lib')],
      'a /lib that leads there from the root': [directory('usr/lib'), symlink('lib', '/usr/lib')],
      'modules of other kernels': [file(own, 'theirs')],
      'modules that are a link': [
        directory('opt/mods'),
        directory('lib'),
        symlink('lib/modules', '../opt/mods'),
      ],
    };
    for (const [name, members] of Object.entries(roots))
      for (const bootArgs of members.length === 0 ? ['', 'quiet'] : ['']) {
        const layers = [archive([...members, file('work', program, 0o755)])];
        const path = makeLayoutOf(world.path('layout'), { layers });
        const id = await create(t, { image: { path }, boot_args: bootArgs });
        const { stdout } = await api.exec(id, ['/work']);
        t.equal(stdout, WORKS, `${name} ${bootArgs}`);
        const pulled = await api.fetch(`/sandboxes/${id}/files?path=/&format=tar`);
        const names = execFileSync('tar', ['-t'], {
          input: Buffer.from(await pulled.arrayBuffer()),
          encoding: 'utf8',
        });
        t.match(names, '\nwork\n', 'what is pulled is the sandbox’s');
        t.notMatch(names, /modules\/\d\.\d+\.\d+-\d|\.sandbox/, 'and nothing of the agent’s');
        if (members.length === 1)
          t.equal(await (await api.fetch(`/sandboxes/${id}/files?path=/${own}`)).text(), 'theirs');
      }
  },
);

t.test('the first example of docs/kernel-modules.md', async (t) => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/kernel-modules.md'), 'utf8');
  const lines = page.split('\n\n').find((part) => part.startsWith('    API=')) ?? '';
  const said = execFileSync('bash', ['-ec', lines.replace(/http:\S+/, url)], { encoding: 'utf8' });
  t.match(JSON.parse(said), { exit_code: 0, stdout: /^wg0 +DOWN +<POINTOPOINT,NOARP>/ });
  for (const { id } of await api.list()) await api.delete(id);
});
