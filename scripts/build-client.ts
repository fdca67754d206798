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

/**
 * The package.json for `npm pack`, without fields that only the workspace needs. The publisher of a build names its
 * source: npm's provenance compares `repository` with where the build ran.
 */
const PACKAGE = {
  name: '@sandboxd/client',
  version: JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version as string,
  description: 'Client library and command of sandboxd, a daemon of microVM sandboxes',
  keywords: ['sandbox', 'microvm', 'firecracker', 'cloud-hypervisor', 'qemu', 'agents', 'mcp'],
  license: 'Apache-2.0',
  ...(process.env.REPOSITORY && { repository: { type: 'git', url: process.env.REPOSITORY } }),
  type: 'module',
  engines: { node: '>=20.3' },
  sideEffects: false,
  exports: {
    '.': { types: './types/index.d.ts', browser: './browser.js', default: './index.js' },
    './package.json': './package.json',
  },
  types: './types/index.d.ts',
  bin: { sandbox: './sandbox.js' },
  files: ['*.js', 'parts', 'types', 'CHANGELOG.md'],
  publishConfig: { access: 'public', provenance: true },
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
  writeFileSync(join(folder, 'README.md'), withoutLinks(readFileSync(join(ROOT, 'docs/client.md'), 'utf8')));
  for (const name of ['LICENSE', 'CHANGELOG.md']) copyFileSync(join(ROOT, name), join(folder, name));
}

/** Links to other pages become their text: the package has this page alone. */
function withoutLinks(page: string): string {
  return page.replace(/\[([^\]]*)\]\((?!https?:|#)[^)]*\)/g, '$1');
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
