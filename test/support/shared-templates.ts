// Templates of the usual sizes for all daemons of a test run, because booting guests for each would be a third of the
// run's cost. Tests of templates create their own.
import { link, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Data directory of the daemon that created them; unset where a single file is run. */
export const SHARED_TEMPLATES = 'SANDBOXD_TEST_TEMPLATES';

const MANIFEST = 'manifest.json';

/**
 * Gives the templates to a data directory in which no daemon runs yet. The files are those of the test run, by hard
 * links: no daemon changes them. A test that does makes its own.
 */
export async function seedTemplates(dataDir: string): Promise<void> {
  const from = process.env[SHARED_TEMPLATES];
  if (from === undefined) return;
  await mkdir(join(dataDir, 'templates'), { mode: 0o700 });
  await linkTemplates(from, dataDir);
}

export async function linkTemplates(from: string, to: string): Promise<void> {
  for (const key of await readdir(join(from, 'templates'))) {
    const [source, target] = [join(from, 'templates', key), join(to, 'templates', key)];
    await mkdir(target, { mode: 0o700 });
    for (const name of await readdir(source))
      if (name !== MANIFEST) await link(join(source, name), join(target, name));
    const manifest = await readFile(join(source, MANIFEST), 'utf8');
    await writeFile(join(target, MANIFEST), manifest.replaceAll(from, to), { mode: 0o600 });
  }
}
