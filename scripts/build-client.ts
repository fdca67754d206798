// Builds the npm package of the client in dist/client: a bundle for Node, one for browsers, types, and the command.
// usage: node scripts/build-client.ts [folder]
import { execFile } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { type BuildOptions, build } from 'esbuild';

const ROOT = resolve(import.meta.dirname, '..');
const SOURCE = join(ROOT, 'client/src');
const COMMON: BuildOptions = {
  bundle: true,
  format: 'esm',
  legalComments: 'none',
  logLevel: 'warning',
  absWorkingDir: ROOT,
  // tar-stream's event emitter: Node's own cannot be required in an ES module, and browsers have none.
  alias: { 'events-universal': 'bare-events' },
};

const NODE: BuildOptions = { platform: 'node', target: 'node20' };

/** The package.json for `npm pack`, without fields that only the workspace needs. */
const PACKAGE = {
  name: '@sandboxd/client',
  version: JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version as string,
  description: 'Client library and command of sandboxd, a daemon of microVM sandboxes',
  license: 'Apache-2.0',
  type: 'module',
  engines: { node: '>=20.3' },
  sideEffects: false,
  exports: { '.': { types: './types/index.d.ts', browser: './browser.js', default: './index.js' } },
  types: './types/index.d.ts',
  bin: { sandbox: './sandbox.js' },
};

export async function buildClient(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const tsc = promisify(execFile)(process.execPath, [
    join(ROOT, 'node_modules/typescript/bin/tsc'),
    '-p',
    join(ROOT, 'client/tsconfig.json'),
    '--outDir',
    join(folder, 'types'),
  ]);
  await Promise.all([
    tsc,
    bundleNode('index.ts', join(folder, 'index.js')),
    bundleBrowser(join(folder, 'browser.js')),
  ]);
  toPackageImports(join(folder, 'types'));
  if (existsSync(join(SOURCE, 'command/program.ts'))) {
    await build({
      ...COMMON,
      ...NODE,
      entryPoints: { sandbox: join(SOURCE, 'command/program.ts') },
      outdir: folder,
      // What one verb alone needs, such as the MCP SDK, is loaded by it.
      splitting: true,
      chunkNames: 'parts/[name]-[hash]',
      banner: { js: '#!/usr/bin/env node' },
    });
    chmodSync(join(folder, 'sandbox.js'), 0o755);
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(PACKAGE, null, 2)}\n`);
  copyFileSync(join(ROOT, 'docs/client.md'), join(folder, 'README.md'));
}

/** Changes imports in declarations to the package's file names. */
function toPackageImports(folder: string): void {
  for (const path of globSync('**/*.d.ts', { cwd: folder })) {
    const text = readFileSync(join(folder, path), 'utf8');
    writeFileSync(join(folder, path), text.replace(/(from '\.[^']*)\.ts'/g, "$1.js'"));
  }
}

async function bundleNode(entry: string, outfile: string): Promise<void> {
  await build({ ...COMMON, ...NODE, entryPoints: [join(SOURCE, entry)], outfile });
}

export async function bundleBrowser(outfile: string, options: BuildOptions = {}): Promise<void> {
  await build({
    ...COMMON,
    entryPoints: [join(SOURCE, 'index.ts')],
    outfile,
    platform: 'browser',
    target: 'es2022',
    conditions: ['browser'],
    minify: true,
    ...options,
  });
}

if (import.meta.main) await buildClient(resolve(process.argv[2] ?? join(ROOT, 'dist/client')));
