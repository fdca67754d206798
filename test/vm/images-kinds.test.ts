// Guests from images of every kind: each C library and none, with little in them, and that oddly.
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import t from 'tap';
import { poll } from '../../host-agent/src/lib/wait.ts';
import { BAKED_DATA_DIR, startDaemon } from '../support/daemon.ts';
import { filesOfPackage } from '../support/debian-packages.ts';
import { compileProgram } from '../support/image-program.ts';
import { scaled } from '../support/time-scale.ts';
import { archive, type Member } from '../unit/guest-agent/support/tar-blocks.ts';
import { type MadeImage, makeLayoutOf, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const world = new World(t);
const { api } = await startDaemon(t, { flags: ['--image-path-allow', world.dir] });

const file = (name: string, content: string | Buffer, mode = 0o644): Member => ({ name, mode, content });
const directory = (name: string, mode = 0o755): Member => ({ name, flag: '5', mode });
const symlink = (name: string, target: string): Member => ({ name, flag: '2', target });
const copy = (path: string): Member => file(path.slice(1), readFileSync(realpathSync(path)), 0o755);

const it = file('bin/it', compileProgram('gcc', '-static'), 0o755);
const GLIBC = [
  file('bin/it', compileProgram('gcc'), 0o755),
  copy('/lib64/ld-linux-x86-64.so.2'),
  copy('/lib/x86_64-linux-gnu/libc.so.6'),
];
const MUSL = [file('bin/it', compileProgram('musl-gcc'), 0o755), copy('/lib/ld-musl-x86_64.so.1')];
const STATIC_MUSL = [file('it', compileProgram('musl-gcc', '-static'), 0o755)];
const PASSWD = [
  '# not a user',
  'broken',
  ':x:7:7::/:',
  'web:x:1000:50:Web:/home/web:/none',
  '+nis::::::',
  'last:x:1001:51::/:/bin/sh',
].join('\n');
const GROUP = 'ops:x:60:\nweb:x:61:web';
const stranger = { patch: (header: Buffer) => header.write('0001750\0', 108) };

/** The packages of the profile that has Debian's Python. */
function readPythonTree(): Buffer {
  const dir = join(BAKED_DATA_DIR, 'profiles/.trees');
  const about = readdirSync(dir).find(
    (name) =>
      name.endsWith('.json') && 'python3' in JSON.parse(readFileSync(join(dir, name), 'utf8')).packages,
  );
  if (about === undefined) throw new Error('the profile python-3.11 is not baked');
  return zstdDecompressSync(readFileSync(join(dir, about.replace('.json', '.tar.zst'))));
}

const SHELL = 'echo serve uid=$(busybox id -u) A=$A cwd=$PWD; exec busybox sleep 1000000';
const PYTHON = [
  'import ctypes, os, sqlite3, ssl, sys, time',
  'print("serve uid=%d A=%s cwd=%s" % (os.getuid(), os.environ["A"], os.getcwd()), flush=True)',
  'time.sleep(1000000)',
].join('\n');

type Kind = MadeImage['config'] & {
  readonly layers: MadeImage['layers'];
  /** Beneath those. */
  readonly packages?: () => readonly Buffer[];
  /** What the service says first; a regular expression: its error, as it cannot start. */
  readonly says: string | RegExp;
};
const KINDS: Readonly<Record<string, Kind>> = {
  'glibc and no shell, a user by name': {
    layers: [[...GLIBC, file('etc/passwd', PASSWD), file('etc/group', GROUP)]],
    User: 'web',
    says: 'serve uid=1000 A=b cwd=/\n',
  },
  'musl, a user and a group by name, of files without a last line end': {
    layers: [[...MUSL, file('etc/passwd', PASSWD), file('etc/group', GROUP)]],
    User: 'last:web',
    WorkingDir: '/made/here',
    says: 'serve uid=1001 A=b cwd=/made/here\n',
  },
  'from scratch, a user by number': {
    layers: [STATIC_MUSL],
    Entrypoint: ['/it'],
    User: '4242',
    says: 'serve uid=4242 A=b cwd=/\n',
  },
  'the static busybox of Debian, from scratch': {
    packages: () => [filesOfPackage('busybox-static')],
    layers: [STATIC_MUSL],
    Entrypoint: ['busybox', 'sh', '-c', SHELL],
    says: 'serve uid=0 A=b cwd=/\n',
  },
  'packages of Debian without a shell, each a layer, a user of a number that they do not have': {
    packages: () => ['base-files', 'netbase', 'tzdata', 'libc6'].map(filesOfPackage),
    layers: [[file('bin/it', GLIBC[0]?.content ?? '', 0o755), file('etc/passwd', PASSWD)]],
    User: '65532:65532',
    WorkingDir: '/home/nonroot',
    says: 'serve uid=65532 A=b cwd=/home/nonroot\n',
  },
  'Debian with its Python': {
    packages: () => [readPythonTree()],
    layers: [STATIC_MUSL],
    Entrypoint: ['python3', '-c', PYTHON],
    Env: ['A=b', 'PATH=/usr/bin:/bin:/'],
    User: 'www-data',
    says: 'serve uid=33 A=b cwd=/\n',
  },
  'a root that a stranger owns, and what the guest needs as files and links': {
    layers: [
      [
        { ...directory('./'), ...stranger },
        it,
        symlink('proc', '/nowhere'),
        file('dev', 'a file'),
        symlink('sys', 'bin'),
        file('tmp', 'a file'),
        symlink('run', '/run'),
        symlink('etc', '/bin'),
      ],
    ],
    says: 'serve uid=0 A=b cwd=/\n',
  },
  'an /etc of links and directories in place of files': {
    layers: [
      [
        it,
        ...['passwd', 'group', 'machine-id', 'resolv.conf'].map((name) => directory(`etc/${name}`)),
        symlink('etc/hostname', '/etc/hostname'),
        symlink('etc/hosts', '../../../../proc/self/mem'),
      ],
    ],
    says: 'serve uid=0 A=b cwd=/\n',
  },
  'an /etc that is a link to nowhere, of links': {
    layers: [[it, symlink('etc', 'nowhere/etc')]],
    says: 'serve uid=0 A=b cwd=/\n',
  },
  'an /etc that is a file': { layers: [[it, file('etc', 'a file')]], says: 'serve uid=0 A=b cwd=/\n' },
  'an entrypoint of one empty text': {
    layers: [[it]],
    Entrypoint: [''],
    Cmd: ['it', 'serve'],
    User: ':0',
    StopSignal: 'RTMIN+3',
    says: 'serve uid=0 A=b cwd=/\n',
  },
  'a user that its files do not have': {
    layers: [[it, file('etc/passwd', PASSWD)]],
    User: 'nobody-of-this-name',
    says: /nobody-of-this-name/,
  },
  'a program that it does not have': { layers: [[it]], Entrypoint: ['/bin/none'], says: /none/ },
  'a program without the library that it needs': {
    layers: [[it, file('bin/dynamic', GLIBC[0]?.content ?? '', 0o755)]],
    Entrypoint: ['/bin/dynamic'],
    says: /dynamic/,
  },
};

/** As copies of a guest that had no root yet, and, what may go another way there, booted as well. */
const WAYS = Object.entries(KINDS).flatMap(([name, kind]) => [
  { name, kind, boot_args: '' },
  ...(name.includes('links') ? [{ name: `${name}, booted`, kind, boot_args: 'quiet' }] : []),
]);

for (const {
  name,
  boot_args,
  kind: { layers, packages, says, ...config },
} of WAYS) {
  t.test(name, async (t) => {
    const defaults = { Entrypoint: ['it'], Cmd: ['serve'], Env: ['A=b', 'PATH=/bin:/'] };
    const tars = [...(packages?.() ?? []), ...layers.map((members) => archive(members))];
    const path = makeLayoutOf(world.path('layout'), { layers: tars, config: { ...defaults, ...config } });
    const body = { image: { path }, boot_args };
    const { id } = await api.ask('createSandbox', { body });
    const status = () => api.ask('getService', { params: { id } });
    if (typeof says === 'string') {
      t.equal((await status()).state, 'running');
      const read = async () => {
        const { records } = await api.ask('readLogs', { params: { id }, query: { source: 'service' } });
        const said = records.flatMap(({ stream, text }) => (stream === 'event' ? [] : [text])).join('');
        return said.endsWith('\n') ? said : undefined;
      };
      const said = await poll(read, 100, AbortSignal.timeout(scaled(60_000)));
      t.equal(said, says);
    } else t.match(await status(), { state: 'failed', last_exit: { error: says } });
    t.equal(
      (await api.exec(id, ['it', 'here'])).stdout,
      'here uid=0 A=b cwd=/\n',
      'by the PATH of the image',
    );
    await api.ask('deleteSandbox', { params: { id } });
  });
}
