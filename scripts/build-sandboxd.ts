// Builds dist/sandboxd: the host agent as one file inside a copy of the pinned Node. Next to it go the files that it
// needs to run and to bake: native addons in addons/, and in node_modules/ the npm packages of profiles. Does nothing
// when no input has changed.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { bundleConsole } from './build-console.ts';
import { CONVERTER, DISK_PROGRAMS, DYNAMIC_PROGRAMS, GATEWAY, PROGRAMS } from './program-files.ts';
import { resolveTarget } from './target.ts';

process.chdir(resolve(import.meta.dirname, '..'));

const { architecture, isForeign, dist, modules, toolPrefix, libraryOptions } = resolveTarget();
const NODE_NAME = `node-linux-${architecture.npm}`;
const NODE_PACKAGE = `${modules}/${NODE_NAME}`;
const NODE = `${NODE_PACKAGE}/bin/node`;
/** The npm packages of the profile with the Node runtime. */
const NPM_PACKAGES = ['corepack', 'npm'];
const LMDB_ADDON = `${modules}/@lmdb/lmdb-linux-${architecture.npm}/node.napi.glibc.node`;
const OUT = `${dist}/sandboxd`;
const STAMP = `${dist}/.sandboxd-stamp`;
const WORK = `${dist}/.sandboxd-build`;
/**
 * The heap is some 20 MB, and V8 also counts socket buffers, so by default it would collect the whole heap for every
 * 15 MB of them: half of the daemon's time on uploads (host-agent/src/lib/memory-trim.ts collects when idle). V8
 * rejects a code cache that was made with other flags.
 */
const V8_OPTIONS = ['--initial-old-space-size=128'];
/** SIGUSR1 would otherwise open a debugger, through which any local user could run code as the daemon. */
const NODE_OPTIONS = [...V8_OPTIONS, '--disable-sigusr1'];
const GCC_OPTIONS = ['-std=gnu17', '-O2', '-Wall', '-Wextra', '-Werror', '-s'];
const GXX_OPTIONS = ['-std=c++17', '-O2', '-Wall', '-Wextra', '-Werror', '-s', '-static'];
const PROGRAMS_OF_PROFILES = 'rootfs-builder/programs';
const HOST_ADDON = 'rootfs-builder/native/host.c';
const ADDON_OPTIONS = [
  ...GCC_OPTIONS,
  '-fPIC',
  '-shared',
  '-fvisibility=hidden',
  ...['-isystem', 'node_modules/node-api-headers/include', '-isystem', `${NODE_PACKAGE}/include/node`],
];
const SOURCES = ['api', 'client', 'console', 'host-agent', 'proto', 'rootfs-builder'].flatMap((name) => [
  `${name}/src/**/*.{ts,tsx,js,json,css,html,svg}`,
  `${name}/package.json`,
  `${name}/profiles/*.json`,
  `${name}/programs/**/*.py`,
  `${name}/native/*.{c,cc,h}`,
]);

/** Loads addons from the executable's directory, where the packages' own loaders would search node_modules. */
const ADDON_LOADER = `
const { dirname, join } = require('node:path');
module.exports = () => {
  const addon = { exports: {} };
  process.dlopen(addon, join(dirname(process.execPath), 'addons', 'lmdb.node'));
  return addon.exports;
};`;

const addons: Plugin = {
  name: 'addons',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node-gyp-build-optional-packages$/ }, () => ({
      path: 'loader',
      namespace: 'addons',
    }));
    // Optional accelerators; their packages work without them.
    onResolve({ filter: /^(?:msgpackr-extract|bufferutil|utf-8-validate)$/ }, () => ({
      path: 'absent',
      namespace: 'addons',
    }));
    // The CommonJS form of the package: its ES form reads its path from import.meta, which a bundle does not have.
    onResolve({ filter: /^lmdb$/ }, () => ({ path: resolve('node_modules/lmdb/dist/index.cjs') }));
    onLoad({ filter: /^loader$/, namespace: 'addons' }, () => ({ contents: ADDON_LOADER }));
    onLoad({ filter: /^absent$/, namespace: 'addons' }, () => ({
      contents: `throw new Error('this optional addon is not part of the build');`,
    }));
  },
};

const inputs = fingerprint();
if (!existsSync(OUT) || !existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== inputs) {
  const startedAt = performance.now();
  say('building sandboxd');
  rmSync(WORK, { recursive: true, force: true });
  mkdirSync(join(WORK, 'addons'), { recursive: true });
  await bundle();
  const assets = await layOutConsole();
  makeExecutable(ensureRuntime(), assets);
  copyFileSync(LMDB_ADDON, join(WORK, 'addons/lmdb.node'));
  execFileSync(`${toolPrefix}gcc`, [...ADDON_OPTIONS, '-o', join(WORK, 'addons/host.node'), HOST_ADDON], {
    stdio: 'inherit',
  });
  layOutNpmRuntime(ensureRuntime());
  for (const name of [...PROGRAMS, ...DYNAMIC_PROGRAMS]) {
    const source = `host-agent/native/${name}.c`;
    const linking = PROGRAMS.includes(name) ? ['-static'] : [];
    execFileSync(`${toolPrefix}gcc`, [...GCC_OPTIONS, ...linking, '-o', join(WORK, name), source], {
      stdio: 'inherit',
    });
  }
  for (const name of DISK_PROGRAMS) {
    const source = `host-agent/native/${name}.cc`;
    const options = [
      ...GXX_OPTIONS,
      '-o',
      join(WORK, name),
      source,
      ...libraryOptions,
      '-lext2fs',
      '-lcom_err',
    ];
    execFileSync(`${toolPrefix}g++`, options, { stdio: 'inherit' });
  }
  // A build that cannot print its version must not replace a working one.
  const version = isForeign ? architecture.title : askVersion(resolve(WORK, 'sandboxd'));
  for (const name of ['addons', 'node_modules']) {
    rmSync(`${dist}/${name}`, { recursive: true, force: true });
    renameSync(join(WORK, name), `${dist}/${name}`);
  }
  for (const name of [...PROGRAMS, ...DYNAMIC_PROGRAMS, ...DISK_PROGRAMS])
    renameSync(join(WORK, name), `${dist}/${name}`);
  for (const name of [CONVERTER, GATEWAY]) renameSync(join(WORK, name), `${dist}/${name}`);
  renameSync(join(WORK, 'sandboxd'), OUT);
  rmSync(`${dist}/sandbox`, { force: true });
  symlinkSync('sandboxd', `${dist}/sandbox`);
  rmSync(WORK, { recursive: true, force: true });
  writeFileSync(STAMP, inputs);
  const sizeMib = Math.round(statSync(OUT).size / 2 ** 20);
  say(`  ${version}, ${sizeMib} MiB, ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

function fingerprint(): string {
  const hash = createHash('sha256');
  for (const path of [
    ...SOURCES.flatMap((pattern) => globSync(pattern)).sort(),
    'package-lock.json',
    import.meta.filename,
    'scripts/build-console.ts',
    'scripts/target.ts',
  ]) {
    hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
}

async function bundle(): Promise<void> {
  say('  bundle');
  const shared: BuildOptions = {
    bundle: true,
    platform: 'node',
    target: 'node26',
    legalComments: 'none',
    logLevel: 'warning',
  };
  await build({
    ...shared,
    entryPoints: ['host-agent/src/main.ts'],
    outfile: join(WORK, 'main.cjs'),
    format: 'cjs',
    // Read only by sources that are not bundled (rootfs-builder/src/lib/host-addon.ts).
    logOverride: { 'empty-import-meta': 'silent' },
    plugins: [addons],
  });
  await build({
    ...shared,
    entryPoints: ['host-agent/src/images/convert/main.ts'],
    outfile: join(WORK, CONVERTER),
    format: 'esm',
  });
  await build({
    ...shared,
    entryPoints: ['host-agent/src/gateway/main.ts'],
    outfile: join(WORK, GATEWAY),
    format: 'cjs',
  });
}

/** Node without symbols, shared with the guest agent's build. Stripping the finished executable would break it. */
function ensureRuntime(): string {
  const version = createHash('sha256')
    .update(readFileSync(join(NODE_PACKAGE, 'package.json')))
    .digest('hex');
  const runtime = `${dist}/.runtime/node-${version.slice(0, 16)}`;
  if (existsSync(runtime)) return runtime;
  say('  runtime');
  mkdirSync(dirname(runtime), { recursive: true });
  execFileSync(`${toolPrefix}strip`, ['-o', `${runtime}.tmp`, NODE]);
  if (!isForeign) execFileSync(`${runtime}.tmp`, ['-e', '0']);
  renameSync(`${runtime}.tmp`, runtime);
  return runtime;
}

/** The package's files without symbols. The binary is a hard link to a file that exists anyway. */
function layOutNpmRuntime(runtime: string): void {
  const target = join(WORK, 'node_modules', NODE_NAME);
  mkdirSync(join(target, 'bin'), { recursive: true });
  copyFileSync(join(NODE_PACKAGE, 'package.json'), join(target, 'package.json'));
  linkSync(runtime, join(target, 'bin/node'));
  for (const name of NPM_PACKAGES)
    cpSync(`node_modules/${name}`, join(WORK, 'node_modules', name), { recursive: true, dereference: true });
}

/** The console's files as assets of the executable: paths by name. */
async function layOutConsole(): Promise<Record<string, string>> {
  const folder = join(WORK, 'console');
  mkdirSync(folder);
  const files = await bundleConsole();
  return Object.fromEntries(
    [...files].map(([name, bytes]) => {
      const path = join(folder, name);
      writeFileSync(path, bytes);
      return [`console/${name}`, path];
    }),
  );
}

function makeExecutable(runtime: string, assets: Readonly<Record<string, string>>): void {
  say('  executable');
  const config = join(WORK, 'sea.json');
  writeFileSync(
    config,
    JSON.stringify({
      main: join(WORK, 'main.cjs'),
      output: join(WORK, 'sandboxd'),
      executable: runtime,
      assets: {
        ...assets,
        ...Object.fromEntries(globSync(`${PROGRAMS_OF_PROFILES}/**/*.py`).map(toAsset)),
      },
      disableExperimentalSEAWarning: true,
      // Code of another architecture cannot be compiled here.
      useCodeCache: !isForeign,
      execArgvExtension: 'none',
      execArgv: NODE_OPTIONS,
    }),
  );
  execFileSync(isForeign ? process.execPath : runtime, [...V8_OPTIONS, '--build-sea', config], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  chmodSync(join(WORK, 'sandboxd'), 0o755);
}

function toAsset(path: string): [string, string] {
  return [relative(PROGRAMS_OF_PROFILES, path), path];
}

function askVersion(program: string): string {
  return execFileSync(program, ['--version'], { cwd: '/', encoding: 'utf8' }).trim();
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
