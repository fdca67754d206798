// The examples of docs/install.md, each run as it is written: on a host whose /etc, /opt, /run, /var/lib and /usr/local/bin are this
// test's alone, and, once it is installed, without the checkout. The package's way, of docs/operate.md, is install.test.ts and run.ts.
import '../support/network/own-network.ts';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { ENVIRONMENT, makeDirectories, removeDirectories } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const ROOT = resolve(import.meta.dirname, '../..');
const PAGE = readFileSync(join(ROOT, 'docs/install.md'), 'utf8');
const AT = 'http://127.0.0.1:7878';
/** What nobody who installed it has. */
const SOURCES = ['dist', 'node_modules', 'host-agent', 'scripts', 'guest-agent', 'rootfs-builder', 'client'];

function blocks(language: string): string[] {
  return [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, block = '']) => block,
  );
}

/** The commands of the page's first table, whose bars are written so that they end no column. */
function checks(): string[] {
  const rows = PAGE.split('\n').filter((line) => line.startsWith('| '));
  return rows.flatMap((row) => /\| `([^`]+)` \|$/.exec(row)?.[1]?.replaceAll('\\|', '|') ?? []);
}

type Said = { readonly status: number; readonly text: string };

async function openHost(t: Test) {
  const directories = await makeDirectories();
  const dir = mkdtempSync(join(tmpdir(), 'docs-'));
  t.teardown(async () => {
    execFileSync('umount', ['--recursive', '--lazy', '/opt', '/usr/local/bin']);
    rmSync(dir, { recursive: true });
    await removeDirectories(directories);
  });
  for (const name of ['opt', 'local', 'programs', 'empty', 'work']) mkdirSync(join(dir, name));
  writeFileSync(join(dir, 'programs/sudo'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
  const place = `set -e
mount -t tmpfs none /run
for dir in /etc /var/lib; do
  mkdir -p /run/over$dir/upper /run/over$dir/work
  mount -t overlay overlay -o lowerdir=$dir,upperdir=/run/over$dir/upper,workdir=/run/over$dir/work $dir
done
mount --bind ${dir}/opt /opt
mount --bind ${dir}/local /usr/local/bin
mkdir -p /var/lib/sandboxd
mount --rbind ${directories.dataDir} /var/lib/sandboxd
grep -q ^kvm: /etc/group || echo kvm:x:64000: >> /etc/group
ip link set lo up`;
  execFileSync('bash', ['-c', place]);
  const hidden = SOURCES.map((name) => `mount --bind ${dir}/empty ${join(ROOT, name)}\n`).join('');
  const { MAKEFLAGS: _, MAKELEVEL: __, SANDBOXD_DATA_DIR: ___, ...inherited } = ENVIRONMENT;
  const env = { ...inherited, PATH: `${dir}/programs:/usr/local/bin:${process.env.PATH}` };
  /** As somebody who has read no further: in the checkout, or elsewhere once that is gone. */
  const arguments_ = (script: string, where: 'checkout' | 'elsewhere'): string[] => [
    '--mount',
    'bash',
    '-o',
    'pipefail',
    '-c',
    where === 'checkout' ? `cd ${ROOT}\n${script}` : `cd ${dir}/work\n${hidden}${script}`,
  ];
  const sh = async (script: string, where: 'checkout' | 'elsewhere' = 'elsewhere'): Promise<Said> => {
    const { stdout, stderr, code } = await promisify(execFile)('unshare', arguments_(script, where), {
      env,
      maxBuffer: 2 ** 26,
    }).then(
      (said) => ({ ...said, code: 0 }),
      (error: { stdout: string; stderr: string; code: number }) => error,
    );
    return { status: code, text: `${stdout}${stderr}` };
  };
  /** A daemon while `use` runs. */
  const during = async (line: string, use: () => Promise<void>): Promise<void> => {
    const child = spawn('unshare', arguments_(`exec ${line}`, 'elsewhere'), {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (bytes) => {
        said += bytes;
      });
    const ended = once(child, 'exit');
    while (!said.includes('listening on')) {
      if (child.exitCode !== null) throw new Error(`${line} ended with ${child.exitCode}: ${said}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    try {
      await use();
    } finally {
      child.kill();
      await ended;
    }
  };
  return { dir, sh, during };
}

/** Status of a request under that name. */
async function statusOf(host: string, origin?: string): Promise<string> {
  const more = origin === undefined ? [] : ['-H', `Origin: ${origin}`];
  const { stdout } = await promisify(execFile)('curl', [
    ...['-s', '-o', '/dev/null', '-w', '%{http_code}', '-H', `Host: ${host}`, ...more, `${AT}/healthz`],
  ]);
  return stdout;
}

t.test('every example of the page on installing', async (t) => {
  const { dir, sh, during } = await openHost(t);
  const [install = '', names = '', program = '', ...more] = blocks('sh');
  t.same(more, [], 'no example is left out');

  // `make install`, and from here on the checkout is gone.
  const [make = '', ...rest] = install.trim().split('\n');
  const installed = await sh(make, 'checkout');
  t.match(installed, { status: 0, text: /installed in \/opt\/sandboxd/ });
  const baked = await sh(rest.join('\n'));
  t.match(baked, { status: 0 }, baked.text);
  t.match(await sh('sandboxd profiles list && sandboxd profiles verify'), { status: 0, text: /^base\b/m });
  t.match(await sh('sandbox version --help'), { status: 0, text: /sandbox version/ });

  // The stand-in says what the program would.
  writeFileSync(join(dir, 'work/cloud-hypervisor-static'), '#!/bin/sh\necho cloud-hypervisor v53.0\n');
  const [, expected = ''] = /--version +# (.*)$/m.exec(program) ?? [];
  t.match(await sh(program), { status: 0, text: expected });

  // What a host needs, asked as the table says: this one may not have it, but each question is one.
  t.equal(checks().length, 5);
  for (const command of checks()) {
    const { status, text } = await sh(command, 'checkout');
    t.ok(status === 0 || /^0\n$|No such file/.test(text), `${command}: ${status} ${text}`);
  }
  const user = /usermod -aG kvm <user>/.exec(PAGE)?.[0].replace('<user>', 'nobody') ?? 'false';
  t.match(await sh(`${user} && id -nG nobody`, 'elsewhere'), { status: 0, text: /\bkvm\b/ });

  // Names that are allowed.
  const allowed: [string, string | undefined, string][] = [
    ['box.example', undefined, '200'],
    ['box.example:7878', 'http://box.example', '200'],
    ['other.example', undefined, '403'],
    ['box.example', 'https://box.example', '200'],
    ['box.example:7878', undefined, '200'],
    ['box.example', 'http://other.example', '403'],
    ['localhost:9000', 'http://localhost:9000', '200'],
    ['localhost:7878', undefined, '200'],
    ['localhost:9001', undefined, '403'],
  ];
  const lines = names.trim().split('\n');
  t.equal(lines.length, 3);
  for (const [at, line] of lines.entries())
    await during(line, async () => {
      for (const [host, origin, status] of allowed.slice(3 * at, 3 * at + 3))
        t.equal(await statusOf(host, origin), status, `${line}: ${host} ${origin}`);
    });
  const [variable = '', key = ''] =
    /`(SANDBOXD_ALLOWED_HOST=\S+)`, `("allowed_host": .*?)`/.exec(PAGE)?.slice(1) ?? [];
  const fromVariable = await sh(`${variable} sandboxd --print-config`);
  writeFileSync(join(dir, 'work/config.json'), `{${key}}`);
  const fromFile = await sh('sandboxd --config config.json --print-config');
  t.match(fromFile, { status: 0, text: /"a\.example"/ });
  t.match(fromVariable, { status: 0, text: /"b\.example"/ });

  // The unit, as systemd reads it, and what it starts: never a guest without KVM.
  const [unit = ''] = blocks('ini');
  writeFileSync(join(dir, 'work/sandboxd.service'), unit);
  t.match(await sh('systemd-analyze verify --man=no ./sandboxd.service'), { status: 0, text: /^$/ });
  const own = ['sandboxd.service', 'sandboxd.sandboxd-vmms.service'].map((name) => `${ROOT}/debian/${name}`);
  const copy = `cp ${own.join(' ')} . && mv sandboxd.sandboxd-vmms.service sandboxd-vmms.service && sed -i s,/usr/bin,/usr/local/bin, *.service`;
  t.match(await sh(`${copy} && systemd-analyze verify --man=no ./*.service`), { status: 0, text: /^$/ });
  const [, start = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
  await during(start, async () => {
    const { stdout } = await promisify(execFile)('curl', ['-s', '-X', 'POST', `${AT}/sandboxes`]);
    t.match(JSON.parse(stdout), { code: 'unsupported', error: /cloud-hypervisor/ }, 'never another engine');
  });
});
