// Programs that tests start again and again, as bundles of their sources: to load hundreds of modules takes most of the
// time of a short process. A run of suites shares them (scripts/test.ts); a file that runs by itself makes its own.
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { buildSync } from 'esbuild';

/** The environment variable that names the directory of the run. */
export const BUNDLES = 'TEST_BUNDLES';
let directory = process.env[BUNDLES];

/** Returns the path of the bundle of a program of this repository, which must not read `import.meta`. */
export function bundleProgram(main: string): string {
  directory ??= makeDirectory();
  const made = join(directory, `${basename(dirname(main))}-${basename(main, '.ts')}.cjs`);
  if (existsSync(made)) return made;
  const part = `${made}.${process.pid}`;
  buildSync({
    absWorkingDir: resolve(import.meta.dirname, '../..'),
    entryPoints: [main],
    outfile: part,
    bundle: true,
    platform: 'node',
    target: 'node26',
    // As an ES module it would load all that Node's own modules load only when it is used.
    format: 'cjs',
    // tar-stream's event emitter, as in scripts/build-client.ts.
    alias: { 'events-universal': 'bare-events' },
    legalComments: 'none',
    logLevel: 'warning',
  });
  // Another file of the run may need it now.
  renameSync(part, made);
  return made;
}

function makeDirectory(): string {
  const own = mkdtempSync(join(tmpdir(), 'test-bundles-'));
  process.on('exit', () => rmSync(own, { recursive: true, force: true }));
  return own;
}
