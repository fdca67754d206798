// One template for all daemons of a test run, because booting a guest for each would be a third of the run's cost.
// Tests of templates create their own.
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Data directory of the daemon that created it; unset where a single file is run. */
export const SHARED_TEMPLATES = 'SANDBOXD_TEST_TEMPLATES';

const copy = promisify(execFile);

/** Copies the template to a data directory in which no daemon runs yet; a test may damage the copy. */
export async function seedTemplates(dataDir: string): Promise<void> {
  const from = process.env[SHARED_TEMPLATES];
  if (from === undefined) return;
  await mkdir(join(dataDir, 'templates'), { mode: 0o700 });
  for (const key of await readdir(join(from, 'templates'))) {
    const [source, target] = [join(from, 'templates', key), join(dataDir, 'templates', key)];
    await mkdir(target, { mode: 0o700 });
    for (const name of await readdir(source)) {
      // Root file systems are hard links, because they are read-only.
      const how = name.endsWith('.ext4') ? ['-l'] : ['--sparse=always', '--reflink=auto'];
      await copy('cp', ['-a', ...how, join(source, name), target]);
    }
    const manifest = join(target, 'manifest.json');
    await writeFile(manifest, (await readFile(manifest, 'utf8')).replaceAll(from, dataDir));
  }
}
