// `make deb`: packs the build as dist/sandboxd_<version>_<architecture>.deb with debhelper. debian/ has the handwritten
// files.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ARCHITECTURE } from '@sandboxd/proto';
import { ensureKernel, seedKernel } from '../../rootfs-builder/src/index.ts';
import { readPackageList } from '../package-list.ts';
import { copyProgram } from '../program-files.ts';
import { renderCompletions } from './completions.ts';
import { renderManual } from './manual.ts';
import { renderPages } from './pages.ts';

process.chdir(resolve(import.meta.dirname, '../..'));

const WORK = resolve('dist/.deb');
/**
 * The package contains the runtime three times, some 110 MiB apart. A window that reaches that far stores it once. dpkg
 * needs as much memory to unpack it.
 */
const XZ = ['--lzma2=preset=1,dict=256MiB', '--check=crc32', '--threads=1'];

const { values } = parseArgs({
  options: {
    'data-dir': { type: 'string', default: '.data' },
    /** For upgrade tests: builds the same content with another version. */
    version: { type: 'string' },
    out: { type: 'string', default: 'dist' },
  },
});
const version: string = values.version ?? JSON.parse(readFileSync('package.json', 'utf8')).version;
const startedAt = performance.now();
say(`building the Debian package, version ${version}`);
rmSync(WORK, { recursive: true, force: true });
mkdirSync(WORK, { recursive: true });
await layOut();
const packed = debhelper();
say('  compress');
const target = join(values.out, `sandboxd_${version}_${ARCHITECTURE.name}.deb`);
mkdirSync(values.out, { recursive: true });
compress(packed, target);
rmSync(WORK, { recursive: true });
const sizeMib = Math.round(statSync(target).size / 2 ** 20);
say(`  ${target}, ${sizeMib} MiB, ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);

async function layOut(): Promise<void> {
  say('  lay out');
  const library = join(WORK, 'files/usr/lib/sandboxd');
  copyProgram(library);
  await layOutKernel(join(library, 'kernel'));
  for (const [path, text] of Object.entries(renderCompletions())) write(join('files/usr/share', path), text);
  for (const [name, text] of Object.entries(renderManual(version))) write(join('files/man', name), text);
  cpSync('debian/config.json', write('files/etc/sandboxd/config.json', ''));
  for (const [path, content] of Object.entries(renderPages('.')))
    write(join('files/usr/share/doc/sandboxd', path), content);
  for (const path of globSync('files/**', { cwd: WORK })) {
    const absolute = join(WORK, path);
    const stats = statSync(absolute);
    if (stats.isDirectory()) chmodSync(absolute, 0o755);
    else chmodSync(absolute, stats.mode & 0o100 ? 0o755 : 0o644);
  }
}

/** The kernel that was prepared for guests here; a host without a kernel starts with it. */
async function layOutKernel(target: string): Promise<void> {
  const dataDir = resolve(values['data-dir']);
  const { vmlinuxPath } = await ensureKernel({ dataDir, initPath: resolve('dist/guest-init') });
  cpSync(dirname(vmlinuxPath), target, { recursive: true });
  // Checks that a daemon would accept it.
  await seedKernel(join(WORK, 'seeded'), target);
  rmSync(join(WORK, 'seeded'), { recursive: true });
}

/** Returns the path of the package, not compressed. */
function debhelper(): string {
  say('  debhelper');
  cpSync('debian', join(WORK, 'debian'), { recursive: true });
  const preinst = join(WORK, 'debian/sandboxd.preinst');
  writeFileSync(preinst, readFileSync(preinst, 'utf8').replaceAll('#VERSION#', version));
  const date = execFileSync('date', ['-R', '-d', `@${sourceDate()}`], { encoding: 'utf8' }).trim();
  write(
    'debian/changelog',
    `sandboxd (${version}) unstable; urgency=medium\n\n  * See the project's history.\n\n -- sandboxd developers <sandboxd@localhost.localdomain>  ${date}\n`,
  );
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, {
      cwd: WORK,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        SOURCE_DATE_EPOCH: sourceDate(),
        RUN_DEPENDS: runPackages().join(', '),
        LC_ALL: 'C.UTF-8',
      },
      maxBuffer: 2 ** 26,
    });
  try {
    run('debian/rules', 'binary');
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout: Buffer; readonly stderr: Buffer };
    process.stderr.write(`${stdout}${stderr}`);
    throw new Error('debian/rules failed; its output is above');
  }
  return resolve(WORK, '..', `sandboxd_${version}_${ARCHITECTURE.name}.deb`);
}

/** A .deb is an archive of two other archives: the one with the files is compressed here. */
function compress(packed: string, target: string): void {
  const parts = join(WORK, 'parts');
  mkdirSync(parts);
  const run = (program: string, ...args: string[]) => execFileSync(program, args, { cwd: parts });
  run('ar', 'x', packed);
  rmSync(packed);
  run('xz', ...XZ, 'data.tar');
  run('xz', '--check=crc32', 'control.tar');
  const unpublished = join(parts, 'made.deb');
  // The order is fixed.
  run('ar', 'rcD', unpublished, 'debian-binary', 'control.tar.xz', 'data.tar.xz');
  execFileSync('dpkg-deb', ['--info', unpublished], { stdio: 'ignore' });
  if (readdirSync(parts).length !== 4) throw new Error(`the package has other parts: ${readdirSync(parts)}`);
  renameSync(unpublished, resolve(target));
}

/** Dependencies from the first part of the list, each with its minimum version. */
function runPackages(): string[] {
  return readPackageList('scripts/packages.txt', 'run').map(({ name, oldest }) => `${name} (>= ${oldest})`);
}

/** Time of the newest commit: the same sources produce the same package. */
function sourceDate(): string {
  if (process.env.SOURCE_DATE_EPOCH) return process.env.SOURCE_DATE_EPOCH;
  if (!existsSync('.git')) return String(Math.trunc(statSync('package.json').mtimeMs / 1000));
  return execFileSync('git', ['log', '-1', '--format=%ct'], { encoding: 'utf8' }).trim();
}

function write(path: string, content: string | Buffer): string {
  const absolute = join(WORK, path);
  mkdirSync(dirname(absolute), { recursive: true });
  writeFileSync(absolute, content);
  return absolute;
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
