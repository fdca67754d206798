// scripts/setup.sh on a simulated machine: what it installs, what it keeps, and its output.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import t from 'tap';

const SCRIPT = resolve(import.meta.dirname, '../../../scripts/setup.sh');
/** Programs that the script may use without installing them. */
const PROGRAMS = 'sh ls cat cut tail tr awk grep sha256sum mktemp rm sleep env dirname dpkg dpkg-query'.split(
  ' ',
);
const NODE = '#!/bin/sh\necho "$FAKE_MAJOR"\n';
const NPM =
  '#!/bin/sh\necho "npm http fetch one"; echo "npm $*" >>"$CALLS"\n[ -z "$NPM_FAILS" ] || { echo "npm error no registry"; exit 1; }\n[ -n "$NO_RUNTIME" ] || { for name in node-linux @biomejs/cli-linux @lmdb/lmdb-linux; do mkdir -p node_modules/$name-x64; done; }\nmkdir -p node_modules\n';

type Machine = {
  readonly nodeMajor?: number;
  readonly hasNpm?: boolean;
  /** Lines of packages.txt. */
  readonly list?: string;
  readonly env?: Record<string, string>;
};

const LIST = 'dpkg  1.0  1.21  there in any case';

/** `again` runs it once more on the result of the first run. */
function setUp({ nodeMajor, hasNpm = false, list = LIST, env = {} }: Machine) {
  const dir = mkdtempSync(join(tmpdir(), 'setup-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const bin = join(dir, 'bin');
  for (const each of [bin, join(dir, 'scripts')]) mkdirSync(each);
  for (const name of [...PROGRAMS, 'mkdir', 'chmod']) {
    symlinkSync(
      spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim(),
      join(bin, name),
    );
  }
  const program = (path: string, text: string) => {
    writeFileSync(path, text);
    chmodSync(path, 0o755);
  };
  program(join(dir, 'node.sh'), NODE);
  program(join(dir, 'npm.sh'), NPM);
  if (nodeMajor !== undefined) symlinkSync(join(dir, 'node.sh'), join(bin, 'node'));
  if (hasNpm) symlinkSync(join(dir, 'npm.sh'), join(bin, 'npm'));
  const install = ['nodejs node', 'npm npm']
    .map((pair) => pair.split(' '))
    .map(
      ([name, file]) =>
        `case " $* " in *" ${name} "*) cat ${dir}/${file}.sh >${bin}/${file}; chmod 755 ${bin}/${file};; esac`,
    );
  const apt = ['#!/bin/sh', 'case "$*" in *--simulate*) exit 0;; esac', 'echo "apt-get $*" >>"$CALLS"'];
  program(join(bin, 'apt-get'), [...apt, 'echo Unpacking; sleep 2', ...install, ''].join('\n'));
  // The tests must not depend on this machine's packages.
  program(join(bin, 'id'), '#!/bin/sh\necho 0\n');
  cpSync(SCRIPT, join(dir, 'scripts/setup.sh'));
  writeFileSync(join(dir, 'scripts/packages.txt'), `# list\n${list}\n`);
  writeFileSync(join(dir, 'package-lock.json'), '{}');
  writeFileSync(join(dir, 'calls'), '');
  const run = () => {
    const { status, stderr } = spawnSync(join(bin, 'sh'), [join(dir, 'scripts/setup.sh')], {
      encoding: 'utf8',
      env: { PATH: bin, CALLS: join(dir, 'calls'), FAKE_MAJOR: String(nodeMajor ?? 18), TMPDIR: dir, ...env },
    });
    const calls = readFileSync(join(dir, 'calls'), 'utf8').trim();
    writeFileSync(join(dir, 'calls'), '');
    return { status, stderr, calls };
  };
  return { ...run(), again: run };
}

t.test('a machine without Node gets Debian’s, once', async (t) => {
  const { status, stderr, calls, again } = setUp({});
  t.equal(status, 0, stderr);
  t.match(calls, /^apt-get .* install nodejs npm$/m);
  t.match(calls, /^npm ci .*--ignore-scripts/m);
  t.match(stderr, /^setup: missing: nodejs npm $/m);
  t.match(again(), { status: 0, stderr: '', calls: '' }, 'nothing is missing any more');
});

t.test('Node from elsewhere is kept, npm is brought where it is missing', async (t) => {
  const kept = setUp({ nodeMajor: 24, hasNpm: true });
  t.equal(kept.status, 0, kept.stderr);
  t.notMatch(kept.calls, /apt-get/);
  t.match(setUp({ nodeMajor: 20 }).calls, /^apt-get .* install npm$/m);
});

t.test('one that is too old is named, with what to do', async (t) => {
  const { status, stderr, calls } = setUp({ nodeMajor: 16, hasNpm: true });
  t.equal(status, 1);
  t.match(stderr, /^setup: error: .*\/bin\/node is Node\.js .*too old: remove it/m);
  t.equal(calls, '');
});

t.test('npm takes the runtime as optional: a machine without it is not ready', async (t) => {
  const { status, stderr, again } = setUp({ nodeMajor: 18, hasNpm: true, env: { NO_RUNTIME: '1' } });
  t.equal(status, 1);
  t.match(stderr, /npm ci brought no packages for this kind of machine/);
  t.match(again().calls, /^npm ci/m, 'it is tried again');
});

t.test('a package of another architecture is not for this machine', async (t) => {
  const list = [
    'dpkg[amd64]  1.0  1.21  there',
    'dpkg[arm64]  1.0  1.21  there',
    'no-such-package[riscv64]  1.0  1.0  elsewhere',
  ].join('\n');
  const { status, stderr, calls } = setUp({ nodeMajor: 18, hasNpm: true, list });
  t.equal(status, 0, stderr);
  t.notMatch(calls, /apt-get/);
});

t.test('a failure is reported, without progress lines', async (t) => {
  const { status, stderr, again } = setUp({ nodeMajor: 18, hasNpm: true, env: { NPM_FAILS: '1' } });
  t.equal(status, 1);
  t.match(stderr, /^npm error no registry\nsetup: error: npm ci failed \(messages above\)/m);
  t.notMatch(stderr, /npm http/);
  t.match(again().calls, /^npm ci/m, 'it is tried again');
});
