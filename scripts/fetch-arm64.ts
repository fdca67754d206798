// Fetches what a build for arm64 on another architecture needs beside compilers: npm packages with programs, and static
// libraries of Debian. Does nothing when both are there.
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ARCHITECTURES } from '@sandboxd/proto';
import { type AptSource, readHostSources, toSourceLine } from '../rootfs-builder/src/debian/sources.ts';
import { resolveTarget } from './target.ts';

const SUITE = 'bookworm';
/** Of libext2fs, and of what it needs. */
const LIBRARIES = ['libext2fs-dev', 'comerr-dev'];

/** Settings that make apt fetch packages of the architecture, without a change to this host's own. */
export async function foreignApt(dir: string): Promise<{ readonly APT_CONFIG: string }> {
  const root = resolve(dir);
  for (const name of ['state/lists/partial', 'cache/archives/partial'])
    mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, 'status'), '');
  const sources = await readHostSources(SUITE);
  writeFileSync(
    join(root, 'sources.list'),
    sources.map((each: AptSource) => `${toSourceLine(each)}\n`).join(''),
  );
  const settings = {
    'APT::Architecture': 'arm64',
    'APT::Architectures': 'arm64',
    'APT::Sandbox::User': 'root',
    'Dir::State': join(root, 'state'),
    'Dir::State::status': join(root, 'status'),
    'Dir::Cache': join(root, 'cache'),
    'Dir::Etc::sourcelist': join(root, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
  };
  const config = join(root, 'apt.conf');
  writeFileSync(
    config,
    Object.entries(settings)
      .map(([name, value]) => `${name} "${value}";\n`)
      .join(''),
  );
  return { APT_CONFIG: config };
}

if (import.meta.main) {
  process.chdir(resolve(import.meta.dirname, '..'));
  const { dist, modules } = resolveTarget(ARCHITECTURES.arm64.npm);
  mkdirSync(dist, { recursive: true });
  fetchNpmPackages(modules);
  await fetchLibraries(dist);
}

/** In the versions that this host's builds have. */
function fetchNpmPackages(modules: string): void {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version: string }>>;
  };
  const names = [`node-linux-${ARCHITECTURES.arm64.npm}`, `@lmdb/lmdb-linux-${ARCHITECTURES.arm64.npm}`];
  const wanted = names.map((name) => ({
    name,
    version: packages[`node_modules/${name}`]?.version ?? 'latest',
  }));
  const isThere = ({ name, version }: (typeof wanted)[number]): boolean => {
    const path = join(modules, name, 'package.json');
    return existsSync(path) && JSON.parse(readFileSync(path, 'utf8')).version === version;
  };
  if (wanted.every(isThere)) return;
  process.stderr.write('fetching npm packages for arm64\n');
  const prefix = join(modules, '..');
  rmSync(prefix, { recursive: true, force: true });
  mkdirSync(prefix, { recursive: true });
  // npm takes another architecture than its own only for what is optional.
  const optionalDependencies = Object.fromEntries(wanted.map(({ name, version }) => [name, version]));
  writeFileSync(join(prefix, 'package.json'), `${JSON.stringify({ private: true, optionalDependencies })}\n`);
  const options = [
    '--cpu=arm64',
    '--os=linux',
    '--libc=glibc',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
  ];
  execFileSync(
    process.execPath,
    ['node_modules/npm/bin/npm-cli.js', 'install', '--prefix', prefix, ...options],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  if (!wanted.every(isThere)) throw new Error('npm brought not all packages for arm64');
}

async function fetchLibraries(dist: string): Promise<void> {
  const sysroot = join(dist, 'sysroot');
  if (existsSync(join(sysroot, 'usr/include/ext2fs/ext2fs.h'))) return;
  process.stderr.write('fetching libraries for arm64\n');
  const debs = join(dist, 'debs');
  rmSync(debs, { recursive: true, force: true });
  mkdirSync(debs, { recursive: true });
  const env = { ...process.env, ...(await foreignApt(join(dist, 'apt'))) };
  execFileSync('apt-get', ['-q', 'update'], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  execFileSync('apt-get', ['-q', 'download', ...LIBRARIES], {
    env,
    cwd: debs,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  for (const deb of globSync(`${debs}/*.deb`)) execFileSync('dpkg-deb', ['-x', deb, sysroot]);
}
