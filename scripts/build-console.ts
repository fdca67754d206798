// Bundles the console: its page, scripts, styles and icon, each compressed, within the limit of its size.
import { readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const ROOT = resolve(import.meta.dirname, '..');
const SOURCE = join(ROOT, 'console/src');
/** All files together, compressed. */
export const MAX_CONSOLE_BYTES = 400 * 1024;
const GZIP_LEVEL = 9;
const STATIC = ['index.html', 'icon.svg'];

/** The compressed files by name. Rejects above the limit of the size. */
export async function bundleConsole(): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: { console: join(SOURCE, 'main.tsx') },
    outdir: 'dist/console',
    write: false,
    bundle: true,
    // The terminal is loaded when the first one is opened.
    splitting: true,
    chunkNames: '[name]-[hash]',
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    conditions: ['browser'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    minify: true,
    legalComments: 'none',
    logLevel: 'warning',
    // As in the library's own bundle for browsers (build-client.ts).
    alias: { 'events-universal': 'bare-events' },
  });
  const bundled = outputFiles.map(({ path, contents }) => [basename(path), contents] as const);
  const fixed = STATIC.map((name) => [name, readFileSync(join(SOURCE, name))] as const);
  const files = new Map(
    [...bundled, ...fixed].map(([name, bytes]) => [
      name,
      new Uint8Array(gzipSync(bytes, { level: GZIP_LEVEL })),
    ]),
  );
  const sizeBytes = [...files.values()].reduce((sum, { length }) => sum + length, 0);
  if (sizeBytes > MAX_CONSOLE_BYTES)
    throw new Error(`the console has ${sizeBytes} bytes compressed; ${MAX_CONSOLE_BYTES} is the limit`);
  return files;
}
