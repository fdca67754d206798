// npm packages in a guest's root, in the layout of `npm install --global`.
import { mkdir, mkdtemp, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { installNpmPackage, resolveNpmPackage } from '../../../rootfs-builder/src/rootfs/npm-packages.ts';

t.test('a package is copied whole, and each of its commands is a link', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'npm-packages-'));
  t.teardown(() => rm(dir, { recursive: true }));
  const make = async (name: string, bin: unknown) => {
    const home = join(dir, 'node_modules', name);
    await mkdir(join(home, 'bin'), { recursive: true });
    await writeFile(join(home, 'package.json'), JSON.stringify({ name, version: '1.2.3', bin }));
    await writeFile(join(home, 'bin/it.js'), `#!/usr/bin/env node\n// ${name}\n`, { mode: 0o644 });
  };
  await make('tool', { tool: 'bin/it.js', toolx: './bin/it.js' });
  await make('@scope/other', 'bin/it.js');
  await make('library', undefined);
  const root = join(dir, 'root');
  await mkdir(join(root, 'usr/local/bin'), { recursive: true });
  await symlink('/elsewhere', join(root, 'usr/local/bin/tool'));
  for (const name of ['tool', '@scope/other', 'library'])
    await installNpmPackage(root, await resolveNpmPackage(name, dir));
  const link = (command: string) => readlink(join(root, 'usr/local/bin', command));
  t.equal(await link('tool'), '../lib/node_modules/tool/bin/it.js');
  t.equal(await link('toolx'), '../lib/node_modules/tool/bin/it.js');
  t.equal(await link('other'), '../lib/node_modules/@scope/other/bin/it.js');
  await t.rejects(link('library'), { code: 'ENOENT' });
  const path = join(root, 'usr/local/bin/tool');
  t.match(await readFile(path, 'utf8'), 'tool');
  t.equal((await stat(path)).mode & 0o777, 0o755);
  await t.rejects(resolveNpmPackage('absent', dir), {
    code: 'npm_runtime_missing',
    message: /npm package absent is not installed/,
  });
});
